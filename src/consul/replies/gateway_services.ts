/**
 * The services that Consul says belong to a gateway. Where its config entry names `*`, these are the
 * names: of services in the mesh that have the listener's protocol and that the token may read.
 *
 * @module
 */

import * as v from "valibot";
import type { Client } from "../http/client.ts";
import { blockingQuery, cursorOf, readQuery } from "../http/query.ts";
import type { PollQuestion } from "../watch/blocking_query.ts";
import { isMissing } from "./missing.ts";
import { flag, object, port, readReply, someText, text } from "./schema.ts";
import type { Registration } from "../types.ts";

const ServicesJson = v.nullable(v.array(object({
  Service: object({ Name: someText, Namespace: text, Partition: text }),
  Port: port,
  FromWildcard: flag,
})));

/** What a gateway's `*` stands for. */
export interface GatewayServices {
  /** Sorted: Consul's order says nothing. */
  readonly services: readonly GatewayService[];
  /** There are services that the token may not read. */
  readonly someHidden: boolean;
}

export interface GatewayService {
  readonly port: number;
  readonly name: string;
  readonly namespace: string;
  readonly partition: string;
}

/** Those that `*` stands for; named ones are in the config entry. */
export function readGatewayServices(json: unknown, gateway: string): readonly GatewayService[] {
  return (readReply(ServicesJson, json, servicesOf(gateway)) ?? [])
    .filter(({ FromWildcard }) => FromWildcard)
    .map(({ Service: { Name, Namespace, Partition }, Port }): GatewayService => ({
      port: Port ?? 0,
      name: Name,
      namespace: Namespace || "default",
      partition: Partition || "default",
    }))
    .sort((a, b) => keyOf(a) < keyOf(b) ? -1 : 1);
}

export function gatewayServicesQuestion(
  client: Client,
  { id, service }: Pick<Registration, "id" | "service">,
): PollQuestion<GatewayServices> {
  return {
    name: `registration ${id}: ${servicesOf(service)}`,
    resource: "gateway_services",
    critical: true,
    dropped: false,
    cursor: "index",
    lacks: (after, before) => isMissing(after.services, before.services, keyOf),
    async poll(request) {
      const reply = await client.call({
        resource: "gateway_services",
        what: `read the ${servicesOf(service)}`,
        needs: `service:read on ${JSON.stringify(service)}`,
        path: `/v1/catalog/gateway-services/${encodeURIComponent(service)}`,
        ...blockingQuery(request, readQuery(client, { stale: true })),
      });
      const services = readGatewayServices(reply.json, service);
      return { value: { services, someHidden: reply.filteredByAcls }, ...cursorOf(reply) };
    },
  };
}

function servicesOf(gateway: string): string {
  return `services of gateway ${JSON.stringify(gateway)}`;
}

function keyOf({ port, partition, namespace, name }: GatewayService): string {
  return `${port} ${partition}/${namespace}/${name}`;
}
