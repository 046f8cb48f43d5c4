/** Bounds on the cost of clients: the rate of new names, and names that could not be had. @module */

import { type Clock, networkOf, type Random } from "../../base/mod.ts";

const SOURCES_LIMIT = 10_000;
const NEGATIVES_LIMIT = 10_000;
/** Names that failed together are not all requested again at the same moment. */
const TTL_JITTER = 0.1;

/** A token bucket per source, each as deep as one second's tokens. */
export class SourceRates {
  readonly #clock: Clock;
  readonly #buckets = new Map<string, { tokens: number; atMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#buckets.size;
  }

  /** Takes a token of the source of `remote`; false: there is none. */
  take(remote: string, perSecond: number): boolean {
    const source = networkOf(remote);
    const nowMs = this.#clock.monotonic();
    const depth = Math.max(1, perSecond);
    const bucket = this.#buckets.get(source) ?? { tokens: depth, atMs: nowMs };
    const added = (nowMs - bucket.atMs) * perSecond / 1_000;
    bucket.tokens = Math.min(depth, bucket.tokens + added);
    bucket.atMs = nowMs;
    setNewest(this.#buckets, source, bucket, SOURCES_LIMIT);
    if (bucket.tokens < 1) return false;
    bucket.tokens--;
    return true;
  }
}

export class NegativeNames {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #names = new Map<string, { readonly untilMs: number; readonly reason: string }>();

  constructor(clock: Clock, random: Random) {
    this.#clock = clock;
    this.#random = random;
  }

  get size(): number {
    return this.#names.size;
  }

  get(name: string): string | undefined {
    const entry = this.#names.get(name);
    if (!entry) return undefined;
    if (entry.untilMs > this.#clock.monotonic()) return entry.reason;
    this.#names.delete(name);
    return undefined;
  }

  add(name: string, { reason, ttlMs }: { readonly reason: string; readonly ttlMs: number }): void {
    const untilMs = this.#clock.monotonic() + ttlMs * (1 + TTL_JITTER * this.#random());
    setNewest(this.#names, name, { untilMs, reason }, NEGATIVES_LIMIT);
  }

  delete(name: string): void {
    this.#names.delete(name);
  }

  clear(): void {
    this.#names.clear();
  }
}

/** A map is ordered by insertion: its first entry is the oldest. */
function setNewest<T>(table: Map<string, T>, key: string, value: T, limit: number): void {
  table.delete(key);
  table.set(key, value);
  const [oldest] = table.keys();
  if (table.size > limit && oldest !== undefined) table.delete(oldest);
}
