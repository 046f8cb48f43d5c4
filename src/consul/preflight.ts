/**
 * Does the token have the rights that running a registration takes? Asked at start, because the agent
 * itself is no help: without node:read there are simply no instances, and a cached leaf is handed to
 * anybody.
 *
 * @module
 */

import * as v from "valibot";
import { type Log, messageOf, ProxyError } from "../base/mod.ts";
import type { MissingRight } from "./agent.ts";
import type { Client } from "./http/client.ts";
import { object, readReply, text } from "./replies/schema.ts";
import type { Registration } from "./types.ts";

const TIMEOUT_MS = 10_000;

interface Need {
  readonly resource: "service" | "node";
  readonly access: "read" | "write";
  readonly segment: string;
  readonly neededFor: string;
}

const ProbeReply = v.array(object({
  Resource: text,
  Access: text,
  Segment: text,
  Allow: v.boolean(),
}));

/** A rule for the prefix "" is what answers for a name that nobody has. */
const ANY_NODE = "postern-probe";

/**
 * Every right once, in the order in which its absence would be noticed. `node`: where the registration
 * stands, beside servers; an agent shows its own without a right on its node.
 */
export function rightsFor(registration: Registration, node?: string): readonly Need[] {
  const { service, proxyService, upstreams } = registration;
  const needs: Need[] = [{
    resource: "service",
    access: "write",
    segment: service,
    neededFor: "its certificate, its intentions and the default policy",
  }];
  if (proxyService) {
    needs.push({
      resource: "service",
      access: "read",
      segment: proxyService,
      neededFor: "reading the proxy's own registration",
    });
  }
  if (node !== undefined) {
    needs.push({
      resource: "node",
      access: "read",
      segment: node,
      neededFor: "reading the proxy's own registration",
    });
  }
  const targets = upstreams.filter(({ kind, peer }) => kind === "service" && peer === "");
  for (const name of new Set(targets.map((upstream) => upstream.name))) {
    needs.push({
      resource: "service",
      access: "read",
      segment: name,
      neededFor: `the discovery chain and the instances of upstream ${name}`,
    });
  }
  if (upstreams.length > 0) {
    needs.push({
      resource: "node",
      access: "read",
      segment: ANY_NODE,
      neededFor: "the instances of every upstream",
    });
  }
  return needs;
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

export async function missingRights(
  client: Client,
  registration: Registration,
  { log, node }: { readonly log: Log; readonly node?: string },
): Promise<readonly MissingRight[]> {
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
    // Without ACLs everybody may do everything.
    if (reply.json === null) return [];
    return readMissing(reply.json, needs);
  } catch (error) {
    const code = error instanceof ProxyError ? error.code : "internal";
    if (code === "agent_unreachable" || code === "closed") throw error;
    // The call is undocumented and may be gone or barred; the watches will say what they lack.
    log.debug("the token's rights cannot be checked beforehand", { error: messageOf(error) });
    return [];
  }
}
