/**
 * The parts of a query that all reads share: where to stand in time, and which datacenter to ask.
 *
 * @module
 */

import { formatDurationMs } from "../../base/mod.ts";
import type { PollRequest } from "../watch/blocking_query.ts";
import type { Client, Reply } from "./client.ts";

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
): ReadQuery & { readonly timeoutMs: number; readonly signal: AbortSignal } {
  const { cursor, stale, waitMs, timeoutMs, signal } = request;
  const waiting = cursor === undefined ? {} : { index: cursor, wait: formatDurationMs(waitMs) };
  const flags = stale ? [...read.flags, "stale"] : read.flags;
  return { query: { ...read.query, ...waiting }, flags, timeoutMs, signal };
}

/** The index to go on from, where the reply has one. */
export function cursorOf(reply: Reply): { readonly cursor?: string } {
  return reply.index === undefined ? {} : { cursor: String(reply.index) };
}
