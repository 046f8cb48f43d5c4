/**
 * Keeps a watch whose index moves all the time from asking without pause: a few answers at once, then
 * a steady rate.
 *
 * @module
 */

import type { Clock } from "../../base/mod.ts";

export interface TokenBucketOptions {
  readonly burst: number;
  /** One more is allowed this often. */
  readonly refillMs: number;
  readonly clock: Clock;
}

export class TokenBucket {
  readonly #options: TokenBucketOptions;
  #tokens: number;
  #atMs: number;

  constructor(options: TokenBucketOptions) {
    this.#options = options;
    this.#tokens = options.burst;
    this.#atMs = options.clock.monotonic();
  }

  /** Takes one and says how long to wait before using it, in milliseconds. */
  take(): number {
    const { burst, refillMs, clock } = this.#options;
    const nowMs = clock.monotonic();
    this.#tokens = Math.min(burst, this.#tokens + (nowMs - this.#atMs) / refillMs) - 1;
    this.#atMs = nowMs;
    return this.#tokens >= 0 ? 0 : -this.#tokens * refillMs;
  }
}
