/**
 * Whether the token has the rights that running a registration takes. Checked at start, because Consul's
 * replies do not show it: without node:read there are simply no instances, and an agent gives a cached leaf
 * to any caller.
 *
 * @module
 */

import * as v from "valibot";
import { type Log, messageOf, ProxyError } from "../base/mod.ts";
import type { Client } from "./http/client.ts";
import type { MissingRight, RightsCheck } from "./model/consul.ts";
import type { Registration } from "./model/values.ts";
import { object, readReply, text } from "./replies/schema.ts";

const TIMEOUT_MS = 10_000;
/**
 * A name that no node has, to ask for the right to read every node: it is covered by a rule for the prefix
 * "", not by one for single nodes.
 */
const ANY_NODE = "postern-probe";

interface Need {
  readonly resource: "service" | "node";
  readonly access: "read" | "write";
  readonly segment: string;
  readonly neededFor: string;
}

const ProbeReply = v.array(
  object({ Resource: text, Access: text, Segment: text, Allow: v.boolean() }),
);

/**
 * Every right once, in the order in which its absence would be noticed. `node`: the registration's, beside
 * servers; an agent shows its own node without a right.
 */
export function rightsFor(registration: Registration, node?: string): readonly Need[] {
  const { service, proxyService, upstreams } = registration;
  const read = (resource: Need["resource"], segment: string, neededFor: string): Need => {
    return { resource, access: "read", segment, neededFor };
  };
  const ownRegistration = "reading the proxy's own registration";
  const targets = upstreams.filter(({ kind, peer }) => kind === "service" && peer === "");
  const neededFor = "its certificate, its intentions and the default policy";
  return [
    { resource: "service", access: "write", segment: service, neededFor },
    ...proxyService ? [read("service", proxyService, ownRegistration)] : [],
    ...node === undefined ? [] : [read("node", node, ownRegistration)],
    ...[...new Set(targets.map(({ name }) => name))].map((name) =>
      read("service", name, `the discovery chain and the instances of upstream ${name}`)
    ),
    ...upstreams.length > 0 ? [read("node", ANY_NODE, "the instances of every upstream")] : [],
  ];
}

export function readMissing(json: unknown, needs: readonly Need[]): readonly MissingRight[] {
  const answers = readReply(ProbeReply, json, "the token's rights");
  return needs
    .filter((need) =>
      answers.some((answer) =>
        !answer.Allow && answer.Resource === need.resource && answer.Access === need.access &&
        answer.Segment === need.segment
      )
    )
    .map((need) => ({
      right: `${need.resource}:${need.access}`,
      on: need.segment === ANY_NODE ? "any node" : need.segment,
      neededFor: need.neededFor,
    }));
}

export async function checkRights(
  client: Client,
  registration: Registration,
  { log, node }: { readonly log: Log; readonly node?: string },
): Promise<RightsCheck> {
  const needs = rightsFor(registration, node);
  try {
    const reply = await client.call({
      resource: "preflight",
      what: "ask for the token's rights",
      method: "POST",
      changesNothing: true,
      path: "/v1/internal/acl/authorize",
      body: needs.map(({ resource, access, segment }) => ({
        Resource: resource,
        Access: access,
        Segment: segment,
      })),
      timeoutMs: TIMEOUT_MS,
      aclsOffIsAnswer: true,
    });
    return reply.json === null
      ? { kind: "acls_off" }
      : { kind: "checked", missing: readMissing(reply.json, needs) };
  } catch (error) {
    const code = error instanceof ProxyError ? error.code : "internal";
    if (code === "agent_unreachable" || code === "closed") throw error;
    // The call is undocumented and may be gone or barred; the watches then name the missing rights.
    const reason = messageOf(error);
    log.debug("the token's rights cannot be checked beforehand", { error: reason });
    return { kind: "unknown", reason };
  }
}
