/**
 * Delays between retries: exponential with full jitter on the upper half, so that many proxies on one
 * host do not retry in step.
 *
 * @module
 */

import type { Random } from "./clock.ts";

export interface BackoffOptions {
  readonly baseMs: number;
  readonly maxMs: number;
  readonly random: Random;
}

export class Backoff {
  readonly #options: BackoffOptions;
  #failures = 0;

  constructor(options: BackoffOptions) {
    this.#options = options;
  }

  /** Failures in a row so far. */
  get failures(): number {
    return this.#failures;
  }

  /** Counts a failure and returns the delay before the next try, in milliseconds. */
  next(): number {
    const { baseMs, maxMs, random } = this.#options;
    const ceiling = Math.min(maxMs, baseMs * 2 ** Math.min(this.#failures, 30));
    this.#failures++;
    return ceiling / 2 + random() * (ceiling / 2);
  }

  reset(): void {
    this.#failures = 0;
  }
}
