/**
 * When a stream is opened again: full jitter, so that many proxies do not come back in step. Streams of
 * one server that have lost it wait together, and come back over one connection.
 *
 * @module
 */

import type { Clock, Random, Timer } from "../../base/mod.ts";

export interface RetryOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly baseMs: number;
  readonly maxMs: number;
}

/** Waits of somewhere in [0, b), b doubling from `baseMs` to `maxMs` until `reset`. */
export class Retry {
  readonly #options: RetryOptions;
  readonly #waiting = new Set<() => void>();
  #timer: Timer | undefined;
  #failures = 0;

  constructor(options: RetryOptions) {
    this.#options = options;
  }

  /** Something has come: the next wait is a first one. */
  reset(): void {
    this.#failures = 0;
  }

  /** Calls `fn` after the wait that is going on, or a new one. */
  wait(fn: () => void): Timer {
    // Two waits of one stream are two, though it is the same function.
    const waiter = () => fn();
    this.#waiting.add(waiter);
    if (!this.#timer) {
      const { clock, random, baseMs, maxMs } = this.#options;
      const ceilingMs = Math.min(maxMs, baseMs * 2 ** Math.min(this.#failures, 30));
      this.#failures++;
      this.#timer = clock.after(random() * ceilingMs, () => this.#fire());
    }
    return {
      cancel: () => {
        if (!this.#waiting.delete(waiter) || this.#waiting.size > 0) return;
        this.#timer?.cancel();
        this.#timer = undefined;
      },
    };
  }

  #fire(): void {
    this.#timer = undefined;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const waiter of waiting) waiter();
  }
}
