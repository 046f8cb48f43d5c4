/**
 * The services of one node as Consul's catalog has them.
 *
 * @module
 */

import * as v from "valibot";
import type { Client, ConsulReply } from "../../http/client.ts";
import { readQuery } from "../../http/query.ts";
import { list, object, openObject, readReply, text } from "../../replies/schema.ts";
import type { ConsulServers } from "../types.ts";

const TIMEOUT_MS = 10_000;

/** Who is asked about which node. */
export interface NodeCatalog {
  readonly client: Client;
  readonly servers: Pick<ConsulServers, "call">;
  readonly node: string;
}

const NodeServicesReply = object({
  Node: v.nullish(object({ Datacenter: text })),
  Services: list(openObject({ ID: text })),
});

/** A row, in the words of Consul's JSON. */
export type NodeService = Readonly<Record<string, unknown>> & { readonly ID: string };

export interface NodeServices {
  /** False: there is no such node, or the token may not see it. */
  readonly isThere: boolean;
  /** Each with the node's datacenter, like the agent's own reply. */
  readonly services: readonly NodeService[];
}

export function readNodeServices(json: unknown, node: string): NodeServices {
  const reply = readReply(NodeServicesReply, json, `the services of ${nodeName(node)}`);
  const datacenter = reply.Node?.Datacenter ?? "";
  const services = (reply.Services ?? []).map((row) => ({ ...row, Datacenter: datacenter }));
  return { isThere: Boolean(reply.Node), services };
}

export function nodeServicesPath(node: string): string {
  return `/v1/catalog/node-services/${encodeURIComponent(node)}`;
}

/** Those that `filter` lets through, as the leader knows them now. */
export async function listServices(
  { client, node }: NodeCatalog,
  options: { readonly what: string; readonly filter: string; readonly signal?: AbortSignal },
): Promise<NodeServices & { readonly reply: ConsulReply }> {
  const { query } = readQuery(client, { stale: false });
  const reply = await client.call({
    resource: "services",
    what: options.what,
    path: nodeServicesPath(node),
    query: { ...query, filter: options.filter },
    timeoutMs: TIMEOUT_MS,
    ...(options.signal ? { signal: options.signal } : {}),
  });
  return { ...readNodeServices(reply.json, node), reply };
}

export function nodeName(node: string): string {
  return `node ${JSON.stringify(node)}`;
}
