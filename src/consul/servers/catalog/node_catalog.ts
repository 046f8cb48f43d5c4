/** The services of one node in Consul's catalog, and why a proxy's entry is missing. @module */

import * as v from "valibot";
import { ProxyError } from "../../../base/mod.ts";
import type { ConsulCall } from "../../http/carrier.ts";
import type { Client, ConsulReply } from "../../http/client.ts";
import { shown } from "../../model/texts.ts";
import { cursorOf, isMissing, pollCall, readQuery } from "../../replies/questions.ts";
import { list, object, openObject, readReply, text } from "../../replies/schema.ts";
import { GET_BOOTSTRAP_PARAMS } from "../methods.ts";
import type { ConsulServers } from "../types.ts";
import type { Registration } from "../../model/values.ts";
import { readRegistration } from "../../replies/registration.ts";
import type { PollQuestion, PollRequest } from "../../watch/blocking_query.ts";

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

interface NodeServices {
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
  { filter, ...call }: Pick<ConsulCall, "what" | "signal"> & { readonly filter: string },
): Promise<NodeServices & { readonly reply: ConsulReply }> {
  const reply = await client.call({
    ...call,
    resource: "services",
    path: nodeServicesPath(node),
    query: { ...readQuery(client, { stale: false }).query, filter },
    timeoutMs: TIMEOUT_MS,
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
  const { reply, ...terms } = options;
  const none = `No proxy is registered as ${shown(proxyId)} on ${nodeName(node)}`;
  // Only for a known token does a list say that it leaves something out.
  if (client.hasToken && !reply.filteredByAcls) return new ProxyError("agent_not_found", none);
  const right = `node:read on ${JSON.stringify(node)}`;
  try {
    const { namespace, partition } = client.options;
    const request = { nodeName: node, proxyId, namespace, partition };
    const timeoutMs = ABSENCE_TIMEOUT_MS;
    await catalog.servers.call(GET_BOOTSTRAP_PARAMS, request, { ...terms, timeoutMs });
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

const COMING_MS = 2_000;
/** Writes of one registration: the node, the application, each with checks, and the proxy. */
const COMING_WRITES = 5;

/**
 * The registration of `proxyId` in a `node-services` reply with `merge-central-config`; undefined: there is
 * none. Fails with `agent_reply_invalid`, `usage` or `unsupported` (no such proxy can be run).
 */
export function readOwnRegistration(
  json: unknown,
  options: { readonly node: string; readonly proxyId: string },
): Registration | undefined {
  const { node, proxyId } = options;
  const own = readNodeServices(json, node).services.find(({ ID }) => ID === proxyId);
  return own && readRegistration(own, proxyId);
}

/** Waits by index, which moves with every change on the node: values are compared by content. */
export function ownRegistrationQuestion(
  catalog: NodeCatalog,
  proxyId: string,
): PollQuestion<Registration> {
  const { client, node } = catalog;
  return {
    name: `registration ${proxyId}`,
    resource: "registration",
    isCritical: true,
    lacks: (after, before) => isMissing(after.upstreams, before.upstreams, ({ id }) => id),
    async poll(request) {
      const ask = (terms: PollRequest<Registration>) =>
        pollCall(client, terms, {
          resource: "registration",
          what: `read the registration of ${JSON.stringify(proxyId)}`,
          path: nodeServicesPath(node),
          query: { filter: `ID == ${filterText(proxyId)}` },
          flags: ["merge-central-config"],
        });
      let reply = await ask(request);
      let value = readOwnRegistration(reply.json, { node, proxyId });
      // The proxy is often started and registered at about the same time, after other entries of the node.
      for (let woken = 0; woken < COMING_WRITES && !value && !request.last; woken++) {
        if (reply.filteredByAcls) break;
        const { index } = reply;
        reply = await ask({ ...request, ...cursorOf(reply), waitMs: COMING_MS });
        value = readOwnRegistration(reply.json, { node, proxyId });
        if (reply.index === index) break;
      }
      // Like an agent's 404: the last value stays true.
      if (!value) throw await absenceOf(catalog, proxyId, { reply, signal: request.signal });
      return { value, ...cursorOf(reply) };
    },
  };
}
