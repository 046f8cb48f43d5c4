/**
 * The parts of a query that all reads share: where to stand in time, and which datacenter to ask.
 *
 * @module
 */

import { formatDurationMs } from "../../base/mod.ts";
import type { PollAnswer, PollRequest } from "../watch/blocking_query.ts";
import type { Client, ConsulCall, ConsulReply } from "./client.ts";

export interface ReadQuery {
  readonly query: Readonly<Record<string, string>>;
  readonly flags: readonly string[];
}

/** `-datacenter` and `-stale` as they apply to a read; `datacenter` wins over the flag. */
export function readQuery(
  client: Client,
  options: { readonly stale: boolean; readonly datacenter?: string },
): ReadQuery {
  return {
    query: { dc: options.datacenter || client.options.datacenter },
    flags: options.stale && client.options.stale ? ["stale"] : [],
  };
}

/** Adds index and wait to a read, its deadline and its end. */
export function blockingQuery(
  request: PollRequest<unknown>,
  read: ReadQuery,
): ReadQuery & Pick<ConsulCall, "timeoutMs" | "signal" | "lastDigest"> {
  const { cursor, stale, waitMs, timeoutMs, signal, last } = request;
  const waiting = cursor === undefined ? {} : { index: cursor, wait: formatDurationMs(waitMs) };
  const flags = stale ? [...read.flags, "stale"] : read.flags;
  const query = { ...read.query, ...waiting };
  return { query, flags, timeoutMs, signal, lastDigest: last?.digest ?? "" };
}

/** What `read` makes of a reply, or what it made of the same bytes before. */
export function answerOf<T>(
  reply: ConsulReply,
  { last }: PollRequest<T>,
  read: (json: unknown) => T,
): PollAnswer<T> {
  const value = reply.isSame && last ? last.value : read(reply.json);
  return { value, ...reply.digest !== undefined && { digest: reply.digest }, ...cursorOf(reply) };
}

/** The index to go on from, where the reply has one. */
export function cursorOf(reply: ConsulReply): { readonly cursor?: string } {
  return reply.index === undefined ? {} : { cursor: String(reply.index) };
}
