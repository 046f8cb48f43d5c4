/**
 * SIGTERM and SIGINT stop, and stop at once when they come again; SIGHUP reloads.
 *
 * @module
 */

import process from "node:process";

export interface SignalHandlers {
  readonly stop: () => void;
  readonly reload: () => void;
}

export interface Signals {
  /** Calls `fn` when a second stop signal comes. */
  onSecondStop(fn: () => void): void;
  off(): void;
}

export function onSignals(handlers: SignalHandlers): Signals {
  let stops = 0;
  let second = () => {};
  const stop = () => {
    stops++;
    if (stops === 1) handlers.stop();
    else second();
  };
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  process.on("SIGHUP", handlers.reload);
  return {
    onSecondStop: (fn) => {
      second = fn;
    },
    off() {
      process.off("SIGTERM", stop);
      process.off("SIGINT", stop);
      process.off("SIGHUP", handlers.reload);
    },
  };
}
