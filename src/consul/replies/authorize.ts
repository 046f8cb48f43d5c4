/**
 * The agent's own verdict on one connection. It stops following changed intentions after a while, so
 * it can only add a refusal to our own verdict, never replace it.
 *
 * @module
 */

import * as v from "valibot";
import type { Client } from "../http/client.ts";
import { object, readReply, text } from "./schema.ts";

const AuthorizeReply = object({ Authorized: v.boolean(), Reason: text });

export interface AuthorizeAnswer {
  readonly allowed: boolean;
  readonly reason: string;
}

/** The verdict, and the configuration of the agent or server that gave it. */
export interface AgentVerdict extends AuthorizeAnswer {
  /** `acl.default_policy`, whether ACLs are enabled or not; `""`: not said. */
  readonly aclDefault: string;
}

export function readAuthorize(json: unknown): AuthorizeAnswer {
  const reply = readReply(AuthorizeReply, json, "authorization");
  return { allowed: reply.Authorized, reason: reply.Reason };
}

export async function askAuthorize(
  client: Client,
  request: {
    readonly resource: string;
    readonly target: string;
    readonly uri: string;
    readonly serial: string;
    readonly timeoutMs: number;
    readonly signal?: AbortSignal;
    /** See {@link Call.lastDigest}. */
    readonly lastDigest?: string;
  },
): Promise<AgentVerdict> {
  const reply = await client.call({
    resource: request.resource,
    what: `ask the ${client.carrier.peer} who may connect to ${JSON.stringify(request.target)}`,
    method: "POST",
    path: "/v1/agent/connect/authorize",
    body: {
      Target: request.target,
      ClientCertURI: request.uri,
      ClientCertSerial: request.serial,
    },
    timeoutMs: request.timeoutMs,
    ...(request.signal ? { signal: request.signal } : {}),
    ...(request.lastDigest === undefined ? {} : { lastDigest: request.lastDigest }),
  });
  return { ...readAuthorize(reply.json), aclDefault: reply.defaultAclPolicy };
}
