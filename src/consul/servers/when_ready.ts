/**
 * Waiting for what others bring about, no longer than is asked for.
 *
 * @module
 */

import type { Clock } from "../../base/mod.ts";

export interface WhenReadyOptions {
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** Each calls back when it is worth looking again, or when it never will be, and returns how to stop. */
  readonly hints: readonly ((look: () => void, fail: (error: unknown) => void) => () => void)[];
  readonly late: () => Error;
  readonly aborted: () => Error;
}

/** What `look` finds, once it finds something. */
export function whenReady<T>(
  look: () => T | undefined,
  { clock, timeoutMs, signal, hints, late, aborted }: WhenReadyOptions,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const found = look();
    if (signal.aborted) return reject(aborted());
    if (found !== undefined) return resolve(found);
    let over = false;
    const end = (settle: () => void) => {
      if (over) return;
      over = true;
      for (const stop of stops) stop();
      timer.cancel();
      signal.removeEventListener("abort", abort);
      settle();
    };
    const abort = () => end(() => reject(aborted()));
    const lookAgain = () => {
      const found = look();
      if (found !== undefined) end(() => resolve(found));
    };
    const fail = (error: unknown) => end(() => reject(error));
    const stops = hints.map((hint) => hint(lookAgain, fail));
    const timer = clock.after(timeoutMs, () => end(() => reject(late())));
    signal.addEventListener("abort", abort);
  });
}
