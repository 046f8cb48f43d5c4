/**
 * Blocking queries: a read that waits until its index passes the caller's, or until `wait` has run out.
 * A reader says what it watches each time it is run, since what a chain depends on changes with it.
 *
 * @module
 */

import { type Clock, parseDurationMs, type Random } from "../../base/mod.ts";
import type { DevRequest } from "./dev_exchange.ts";
import { Refusal } from "./refusal.ts";
import type { Store } from "../catalog/store.ts";

const DEFAULT_WAIT_MS = 5 * 60_000;
const MAX_WAIT_MS = 10 * 60_000;

/** What a read gave: its index, and the topics whose writes could change it. */
export interface Read<T> {
  readonly index: number;
  readonly topics: readonly string[];
  readonly value: T;
}

export interface BlockOptions {
  /** 0: answer at once. */
  readonly index: number;
  readonly waitMs: number;
  readonly hash: string;
}

export interface BlockContext {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
}

/** `index`, `wait` and `hash` of a request; 400 where Consul says 400. */
export function blockOptions(query: URLSearchParams): BlockOptions {
  const wait = query.get("wait") ?? "";
  let waitMs = DEFAULT_WAIT_MS;
  if (wait !== "") {
    const parsed = parseDurationMs(wait);
    if (parsed === undefined) throw new Refusal(400, "Invalid wait time");
    waitMs = parsed;
  }
  const index = query.get("index") ?? "";
  if (index !== "" && !/^\d{1,20}$/.test(index)) throw new Refusal(400, "Invalid index");
  return { index: Number(index), waitMs, hash: query.get("hash") ?? "" };
}

/**
 * Runs `read` until its index is above the caller's or time is up. `exact`: the wait ends exactly at
 * `wait`, without the random sixteenth that spreads callers (leaf and streaming answers).
 */
export async function block<T>(
  context: BlockContext,
  request: DevRequest,
  options: BlockOptions,
  read: () => Read<T>,
  exact = false,
): Promise<Read<T>> {
  const first = read();
  if (options.index === 0 || first.index > options.index) return first;
  return await waitFor(context, request, {
    waitMs: deadline(context, options.waitMs, exact),
    read,
    done: (now) => now.index > options.index,
    first,
  });
}

/** Like {@link block} for a read that is compared by content: waits while the hash stays the same. */
export async function blockByHash<T>(
  context: BlockContext,
  request: DevRequest,
  options: BlockOptions,
  read: () => Read<T> & { readonly hash: string },
): Promise<Read<T>> {
  const first = read();
  if (options.hash === "" || first.hash !== options.hash) return first;
  return await waitFor(context, request, {
    waitMs: deadline(context, options.waitMs, false),
    read,
    done: (now) => now.hash !== options.hash,
    first,
  });
}

function deadline(context: BlockContext, waitMs: number, exact: boolean): number {
  const wait = waitMs === 0 ? DEFAULT_WAIT_MS : Math.min(waitMs, MAX_WAIT_MS);
  return exact ? wait : wait + context.random() * wait / 16;
}

interface Waiting<R> {
  readonly waitMs: number;
  readonly read: () => R;
  readonly done: (now: R) => boolean;
  readonly first: R;
}

function waitFor<R extends { readonly topics: readonly string[] }>(
  context: BlockContext,
  request: DevRequest,
  waiting: Waiting<R>,
): Promise<R> {
  return new Promise((resolve, reject) => {
    let last = waiting.first;
    let over = false;
    const finish = () => {
      over = true;
      timer.cancel();
      stop();
    };
    const again = () => {
      if (over) return;
      try {
        last = waiting.read();
      } catch (error) {
        finish();
        reject(error);
        return;
      }
      if (waiting.done(last)) {
        finish();
        resolve(last);
        return;
      }
      stop = context.store.watch(last.topics, wake);
    };
    // One operation may write several times; all of it is in place a microtask later.
    const wake = () => queueMicrotask(again);
    let stop = context.store.watch(last.topics, wake);
    const timer = context.clock.after(waiting.waitMs, () => {
      finish();
      try {
        resolve(waiting.read());
      } catch (error) {
        reject(error);
      }
    });
    request.onGone(() => {
      if (over) return;
      finish();
      resolve(last);
    });
  });
}
