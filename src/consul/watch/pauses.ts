/**
 * Pauses of watches: one that ends early when it is woken, and a rate for a watch whose index moves all
 * the time.
 *
 * @module
 */

import type { Clock } from "../../base/mod.ts";

/** Resolves to `true` when woken, to `false` at its time or when `signal` aborts; never rejects. */
export function wakeableSleep(
  clock: Clock,
  ms: number,
  { signal, onWake }: {
    readonly signal: AbortSignal;
    /** Registers how to wake; returns how to unregister. */
    readonly onWake?: (wake: () => void) => () => void;
  },
): Promise<boolean> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve(false);
    const end = (woken: boolean) => {
      timer.cancel();
      forget?.();
      signal.removeEventListener("abort", onAbort);
      resolve(woken);
    };
    const onAbort = () => end(false);
    const timer = clock.after(ms, () => end(false));
    const forget = onWake?.(() => end(true));
    signal.addEventListener("abort", onAbort);
  });
}

/** Wakes when one of `signals` aborts that has not yet. */
export function onAbort(
  signals: readonly (AbortSignal | undefined)[],
): (wake: () => void) => () => void {
  const open = signals.filter((signal) => signal?.aborted === false);
  return (wake) => {
    for (const signal of open) signal?.addEventListener("abort", wake);
    return () => {
      for (const signal of open) signal?.removeEventListener("abort", wake);
    };
  };
}

interface TokenBucketOptions {
  readonly burst: number;
  /** Interval after which another one is allowed. */
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

  /** Takes one and returns how long to wait before using it, in milliseconds. */
  take(): number {
    const { burst, refillMs, clock } = this.#options;
    const nowMs = clock.monotonic();
    this.#tokens = Math.min(burst, this.#tokens + (nowMs - this.#atMs) / refillMs) - 1;
    this.#atMs = nowMs;
    return this.#tokens >= 0 ? 0 : -this.#tokens * refillMs;
  }
}
