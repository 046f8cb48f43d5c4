/**
 * What strangers cost at most: how often one source may ask for something new, and which names were
 * asked for in vain. Both tables forget their oldest rather than grow.
 *
 * @module
 */

import { type Clock, networkOf, type Random } from "../../base/mod.ts";

const SOURCES_LIMIT = 10_000;
const NEGATIVES_LIMIT = 10_000;
/** Names that failed together are not all asked for again at the same moment. */
const TTL_JITTER = 0.1;

/** A token bucket per source, each as deep as what flows in within a second. */
export class SourceRates {
  readonly #clock: Clock;
  readonly #buckets = new Map<string, { tokens: number; atMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#buckets.size;
  }

  /** Whether a source may have one more now. */
  take(remote: string, perSecond: number): boolean {
    const source = networkOf(remote);
    const nowMs = this.#clock.monotonic();
    const depth = Math.max(1, perSecond);
    const bucket = this.#buckets.get(source) ?? { tokens: depth, atMs: nowMs };
    const flowed = (nowMs - bucket.atMs) * perSecond / 1_000;
    bucket.tokens = Math.min(depth, bucket.tokens + flowed);
    bucket.atMs = nowMs;
    // The order of a Map is that of insertion: the first is the one that was here longest ago.
    this.#buckets.delete(source);
    this.#buckets.set(source, bucket);
    dropOldest(this.#buckets, SOURCES_LIMIT);
    if (bucket.tokens < 1) return false;
    bucket.tokens--;
    return true;
  }
}

/** Names that could not be had, and why. */
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

  add(name: string, entry: { readonly reason: string; readonly ttlMs: number }): void {
    const ttlMs = entry.ttlMs * (1 + TTL_JITTER * this.#random());
    this.#names.delete(name);
    this.#names.set(name, { untilMs: this.#clock.monotonic() + ttlMs, reason: entry.reason });
    dropOldest(this.#names, NEGATIVES_LIMIT);
  }

  delete(name: string): void {
    this.#names.delete(name);
  }

  clear(): void {
    this.#names.clear();
  }
}

function dropOldest(table: Map<string, unknown>, limit: number): void {
  while (table.size > limit) {
    const oldest = table.keys().next();
    if (oldest.done) return;
    table.delete(oldest.value);
  }
}
