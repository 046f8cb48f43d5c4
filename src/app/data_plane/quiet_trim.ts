/**
 * When memory is given back: what the start needed once that is over, and what a load has brought. Busy is
 * known by processor time, which costs the data path nothing. Under load not yet: what the engine has
 * compiled goes with it, and would be compiled once more, for a billion instructions.
 *
 * @module
 */

import process from "node:process";
import type { Clock } from "../../base/mod.ts";

/** While the start may still go on, and from then on. */
const FIRST_LOOK_MS = 1_000;
const LOOK_MS = 10_000;
/** A process that serves nobody takes a third of a per cent. */
const QUIET_SHARE = 0.02;

export interface QuietTrimOptions {
  readonly clock: Pick<Clock, "after">;
  trim(): void;
  /** Also at the first quiet look after each busy one, later on. */
  readonly afterLoads: boolean;
  /** Processor time so far; for tests. */
  spentMs?(of: "thread" | "process"): number;
}

/** Trims at the first look from now at which this thread is quiet; whether a load is over all threads say. */
export function trimWhenQuiet(options: QuietTrimOptions): void {
  const { clock, trim, afterLoads, spentMs = processorMs } = options;
  const look = (of: "thread" | "process", everyMs: number, onLook: (isBusy: boolean) => void) => {
    const sinceMs = spentMs(of);
    clock.after(everyMs, () => onLook(spentMs(of) - sinceMs > everyMs * QUIET_SHARE));
  };
  const watchLoads = (wasBusy: boolean) =>
    look("process", LOOK_MS, (isBusy) => {
      if (wasBusy && !isBusy) trim();
      watchLoads(isBusy);
    });
  const watchStart = () =>
    look("thread", FIRST_LOOK_MS, (isBusy) => {
      if (isBusy) return watchStart();
      trim();
      if (afterLoads) watchLoads(false);
    });
  watchStart();
}

function processorMs(of: "thread" | "process"): number {
  const { user, system } = of === "thread" ? process.threadCpuUsage() : process.cpuUsage();
  return (user + system) / 1_000;
}
