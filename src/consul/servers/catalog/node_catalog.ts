/**
 * The services of one node in Consul's catalog; where a proxy's entry is missing, the reason.
 *
 * @module
 */

import * as v from "valibot";
import { ProxyError } from "../../../base/mod.ts";
import type { Client, ConsulReply } from "../../http/client.ts";
import { shown } from "../../model/texts.ts";
import { readQuery } from "../../replies/questions.ts";
import { list, object, openObject, readReply, text } from "../../replies/schema.ts";
import { GET_BOOTSTRAP_PARAMS } from "../methods.ts";
import type { ConsulServers } from "../types.ts";

const TIMEOUT_MS = 10_000;
const ABSENCE_TIMEOUT_MS = 5_000;

export interface NodeCatalog {
  readonly client: Client;
  readonly servers: Pick<ConsulServers, "call">;
  readonly node: string;
}

const NodeServicesReply = object({
  Node: v.nullish(object({ Datacenter: text })),
  Services: list(openObject({ ID: text })),
});

/** A row, with the keys of Consul's JSON. */
export type NodeService = Readonly<Record<string, unknown>> & { readonly ID: string };

export interface NodeServices {
  /** False: there is no such node, or the token may not see it. */
  readonly isThere: boolean;
  /** Each with the node's datacenter, as in an agent's reply. */
  readonly services: readonly NodeService[];
}

export function readNodeServices(json: unknown, node: string): NodeServices {
  const reply = readReply(NodeServicesReply, json, `the services of ${nodeName(node)}`);
  const datacenter = reply.Node?.Datacenter ?? "";
  const services = reply.Services.map((row) => ({ ...row, Datacenter: datacenter }));
  return { isThere: Boolean(reply.Node), services };
}

export function nodeServicesPath(node: string): string {
  return `/v1/catalog/node-services/${encodeURIComponent(node)}`;
}

/** The services that match `filter`, as the leader knows them now. */
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

/** A value in a filter expression. A double quote is written as its number: Consul's grammar ends there. */
export function filterText(text: string): string {
  return `"${JSON.stringify(text).slice(1, -1).replaceAll('\\"', "\\x22")}"`;
}

/** A pattern for `matches` that fits `text` alone, in any case. */
export function anyCase(text: string): string {
  const literal = Array.from(
    text,
    (char) => /^[a-z0-9]$/i.test(char) ? char : `\\x{${char.codePointAt(0)?.toString(16)}}`,
  );
  return filterText(`(?i)^${literal.join("")}$`);
}

/**
 * Why `reply` lacks `proxyId`: `agent_not_found`, or `agent_forbidden` that names the right, or `closed`.
 * The call for Envoy's bootstrap parameters shows it, since it takes no right on the node.
 */
export async function absenceOf(
  catalog: NodeCatalog,
  proxyId: string,
  options: { readonly reply: ConsulReply; readonly signal?: AbortSignal },
): Promise<ProxyError> {
  const { client, node } = catalog;
  const { reply, signal } = options;
  const none = `No proxy is registered as ${shown(proxyId)} on ${nodeName(node)}`;
  // Only for a known token does a list say that it leaves something out.
  if (client.hasToken && !reply.filteredByAcls) return new ProxyError("agent_not_found", none);
  const right = `node:read on ${JSON.stringify(node)}`;
  try {
    const { namespace, partition } = client.options;
    await catalog.servers.call(
      GET_BOOTSTRAP_PARAMS,
      { nodeName: node, proxyId, namespace, partition },
      { timeoutMs: ABSENCE_TIMEOUT_MS, ...(signal ? { signal } : {}) },
    );
  } catch (error) {
    if (!(error instanceof ProxyError)) throw error;
    switch (error.code) {
      // It names the right on the proxy's own name.
      case "agent_forbidden":
      case "closed":
        return error;
      case "agent_not_found":
        return new ProxyError("agent_not_found", none);
      default:
        return new ProxyError("agent_not_found", `${none}, or the token may not see it (${right})`);
    }
  }
  return new ProxyError(
    "agent_forbidden",
    `Cannot read the registration of ${shown(proxyId)}: the token may not see ${nodeName(node)} ` +
      `(it takes ${right})`,
  );
}
