/**
 * A pause that ends at its time, by a signal, or when somebody wakes it.
 *
 * @module
 */

import type { Clock } from "../../base/mod.ts";

/** Resolves to `true` when woken, else `false`; never rejects. */
export function wakeableSleep(
  clock: Clock,
  ms: number,
  options: {
    readonly signal: AbortSignal;
    /** Is given how to wake; returns how to forget it. */
    readonly onWake?: (wake: () => void) => () => void;
  },
): Promise<boolean> {
  return new Promise((resolve) => {
    if (options.signal.aborted) return resolve(false);
    const end = (woken: boolean) => {
      timer.cancel();
      forget?.();
      options.signal.removeEventListener("abort", onAbort);
      resolve(woken);
    };
    const onAbort = () => end(false);
    const timer = clock.after(ms, () => end(false));
    const forget = options.onWake?.(() => end(true));
    options.signal.addEventListener("abort", onAbort);
  });
}
