/**
 * SIGTERM and SIGINT stop, and stop at once when they come again; SIGHUP reloads.
 *
 * @module
 */

import process from "node:process";

export interface SignalHandlers {
  readonly stop: () => void;
  /** From the second stop signal on. */
  readonly stopNow?: () => void;
  readonly reload: () => void;
}

/** Calls them until `off`. */
export function onSignals({ stop, stopNow, reload }: SignalHandlers): { off(): void } {
  let stops = 0;
  const onStop = () => ++stops === 1 ? stop() : stopNow?.();
  process.on("SIGTERM", onStop);
  process.on("SIGINT", onStop);
  process.on("SIGHUP", reload);
  return {
    off() {
      process.off("SIGTERM", onStop);
      process.off("SIGINT", onStop);
      process.off("SIGHUP", reload);
    },
  };
}
