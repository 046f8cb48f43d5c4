/**
 * The services of one node as Consul's catalog has them.
 *
 * @module
 */

import * as v from "valibot";
import type { Client, Reply } from "../../http/client.ts";
import { readQuery } from "../../http/query.ts";
import { list, object, openObject, readReply, text } from "../../replies/schema.ts";
import type { Servers } from "../types.ts";

const TIMEOUT_MS = 10_000;

/** Who is asked about which node. */
export interface NodeCatalog {
  readonly client: Client;
  readonly servers: Pick<Servers, "call">;
  readonly node: string;
}

const NodeServicesReply = object({
  Node: v.nullish(object({ Datacenter: text })),
  Services: list(openObject({ ID: text })),
});

/** A row, in the words of Consul's JSON. */
export type NodeService = Readonly<Record<string, unknown>> & { readonly ID: string };

/**
 * Each with the node's datacenter, like the agent's own reply. None where there is no such node, or
 * where the token may not see it.
 */
export function readNodeServices(json: unknown, node: string): readonly NodeService[] {
  const reply = readReply(NodeServicesReply, json, `the services of ${nodeName(node)}`);
  const datacenter = reply.Node?.Datacenter ?? "";
  return (reply.Services ?? []).map((service) => ({ ...service, Datacenter: datacenter }));
}

export function nodeServicesPath(node: string): string {
  return `/v1/catalog/node-services/${encodeURIComponent(node)}`;
}

/** Those that `filter` lets through, as the leader knows them now. */
export async function listServices(
  { client, node }: NodeCatalog,
  options: { readonly what: string; readonly filter: string },
): Promise<{ readonly services: readonly NodeService[]; readonly reply: Reply }> {
  const { query } = readQuery(client, { stale: false });
  const reply = await client.call({
    resource: "services",
    what: options.what,
    path: nodeServicesPath(node),
    query: { ...query, filter: options.filter },
    timeoutMs: TIMEOUT_MS,
  });
  return { services: readNodeServices(reply.json, node), reply };
}

export function nodeName(node: string): string {
  return `node ${JSON.stringify(node)}`;
}
