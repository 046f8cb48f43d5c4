/** SIGTERM and SIGINT stop, and stop at once when they come again; SIGHUP reloads. @module */

import process from "node:process";

interface SignalHandlers {
  readonly stop: () => void;
  /** Called for the second stop signal and later ones. */
  readonly stopNow?: () => void;
  readonly reload: () => void;
  /** Files that the proxy writes to were moved away. */
  readonly reopen?: () => void;
  /** Another process of this program shall take over. */
  readonly upgrade?: () => void;
}

export function onSignals(
  { stop, stopNow, reload, reopen, upgrade }: SignalHandlers,
): { off(): void } {
  let stops = 0;
  const onStop = () => ++stops === 1 ? stop() : stopNow?.();
  process.on("SIGTERM", onStop);
  process.on("SIGINT", onStop);
  const onHangUp = () => {
    reload();
    reopen?.();
  };
  process.on("SIGHUP", onHangUp);
  // Envoy's signal.
  if (reopen) process.on("SIGUSR1", reopen);
  if (upgrade) process.on("SIGUSR2", upgrade);
  return {
    off() {
      process.off("SIGTERM", onStop);
      process.off("SIGINT", onStop);
      process.off("SIGHUP", onHangUp);
      if (reopen) process.off("SIGUSR1", reopen);
      if (upgrade) process.off("SIGUSR2", upgrade);
    },
  };
}
