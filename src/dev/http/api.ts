/** The HTTP API as its endpoints see it: calls, reads that wait for a change. @module */

import type { Context, Hono } from "hono";
import { parseDurationMs } from "../../base/mod.ts";
import { HttpRefusal } from "../refusal.ts";
import type { World } from "../world.ts";

type ApiEnv = { readonly Bindings: World };

/** Endpoints are added to it; a request carries its {@link World} as `env`. */
export type Api = Hono<ApiEnv>;
export type Call = Context<ApiEnv>;

const DEFAULT_WAIT_MS = 5 * 60_000;
const MAX_WAIT_MS = 10 * 60_000;

/** The result of a read, the topics whose writes can change it, and the index to go on from. */
export interface Read<T> {
  readonly index: number;
  readonly topics: readonly string[];
  readonly value: T;
}

interface WaitOptions {
  /** The wait ends at `wait`, without the random sixteenth that spreads clients. */
  readonly isExact?: boolean;
}

/** Reads again after each write that concerns it, until its index is above that of the request. */
export function blockingRead<T>(
  call: Call,
  read: () => Read<T>,
  options: WaitOptions = {},
): Promise<Read<T>> {
  const index = indexOf(call);
  return readUntil(call, read, { ...options, isOld: (now) => index > 0 && now.index <= index });
}

/** Reads again after each write that concerns it, until its hash differs from that of the request. */
export function blockingReadByHash<R extends { readonly hash: string }>(
  call: Call,
  read: () => R & Pick<Read<unknown>, "topics">,
): Promise<R> {
  const hash = call.req.query("hash") ?? "";
  return readUntil(call, read, { isOld: (now) => hash !== "" && now.hash === hash });
}

/** The `index` of a request: a long poll where it is above 0. */
export function indexOf(call: Call): number {
  const index = call.req.query("index") ?? "";
  if (!/^\d{0,20}$/.test(index)) throw new HttpRefusal(400, "Invalid index");
  return Number(index);
}

async function readUntil<R extends Pick<Read<unknown>, "topics">>(
  call: Call,
  read: () => R,
  { isExact = false, isOld }: WaitOptions & { readonly isOld: (now: R) => boolean },
): Promise<R> {
  const { clock, random, store } = call.env;
  const waitMs = waitOf(call);
  const first = read();
  if (!isOld(first)) return first;
  const over = new AbortController();
  const end = () => over.abort();
  const timer = clock.after(isExact ? waitMs : waitMs * (1 + random() / 16), end);
  const { signal: gone } = call.req.raw;
  gone.addEventListener("abort", end);
  if (gone.aborted) end();
  try {
    for (let now = first;; now = read()) {
      if (over.signal.aborted || !isOld(now)) return now;
      await store.change(now.topics, over.signal);
    }
  } finally {
    timer.cancel();
    gone.removeEventListener("abort", end);
  }
}

function waitOf(call: Call): number {
  const text = call.req.query("wait") ?? "";
  const waitMs = text === "" ? DEFAULT_WAIT_MS : parseDurationMs(text);
  if (waitMs === undefined) throw new HttpRefusal(400, "Invalid wait time");
  return waitMs === 0 ? DEFAULT_WAIT_MS : Math.min(waitMs, MAX_WAIT_MS);
}

export function indexHeaders(index: number): Record<string, string> {
  return {
    "X-Consul-Index": String(index),
    "X-Consul-Knownleader": "true",
    "X-Consul-Lastcontact": "0",
  };
}

/** Replies with what a read gives, once its index is above that of the request. */
export async function replyWhenNewer<T>(
  call: Call,
  read: () => Read<T>,
  bodyOf: (value: T) => unknown = (value) => value,
): Promise<Response> {
  const { value, index } = await blockingRead(call, read);
  return Response.json(bodyOf(value), { headers: indexHeaders(index) });
}

/** True when the request has the parameter, with or without a value. */
export function has(call: Call, name: string): boolean {
  return call.req.query(name) !== undefined;
}

export function required(call: Call, name: string): string {
  const value = call.req.query(name) ?? "";
  if (value === "") throw new HttpRefusal(400, `required query parameter '${name}' not set`);
  return value;
}

export function param(call: Call, name: string): string {
  return call.req.param(name) ?? "";
}
