/**
 * Gives memory back to the system after the start and each load, as processor time shows. Under load the
 * engine would drop compiled code and compile it again, for a billion instructions.
 *
 * @module
 */

import process from "node:process";
import type { Clock } from "../../base/mod.ts";

/** Interval during the start, and after it. */
const FIRST_LOOK_MS = 1_000;
const LOOK_MS = 10_000;
/** An idle process takes a third of a per cent. */
const QUIET_SHARE = 0.02;
/** After this many looks the limit is higher: a proxy with many upstreams polls Consul all the time. */
const STRICT_LOOKS = 10;
const LENIENT_SHARE = 0.1;

interface QuietTrimOptions {
  readonly clock: Pick<Clock, "after">;
  trim(): void;
  /** Trim also at the first quiet look after each busy one. */
  readonly afterLoads: boolean;
  /** Processor time so far; for tests. */
  spentMs?(of: "thread" | "process"): number;
}

/** Trims at the first look that finds this thread quiet; later loads are judged by all threads. */
export function trimWhenQuiet(options: QuietTrimOptions): void {
  const { clock, trim, afterLoads, spentMs = processorMs } = options;
  const look = (of: "thread" | "process", everyMs: number, onLook: (share: number) => void) => {
    const sinceMs = spentMs(of);
    clock.after(everyMs, () => onLook((spentMs(of) - sinceMs) / everyMs));
  };
  const watchLoads = (wasBusy: boolean, quietShare: number) =>
    look("process", LOOK_MS, (share) => {
      const isBusy = share > quietShare;
      if (wasBusy && !isBusy) trim();
      watchLoads(isBusy, quietShare);
    });
  const watchStart = (looks: number) =>
    look("thread", FIRST_LOOK_MS, (share) => {
      if (share > (looks > STRICT_LOOKS ? LENIENT_SHARE : QUIET_SHARE)) {
        return watchStart(looks + 1);
      }
      trim();
      if (afterLoads) watchLoads(false, QUIET_SHARE + share);
    });
  watchStart(1);
}

function processorMs(of: "thread" | "process"): number {
  const { user, system } = of === "thread" ? process.threadCpuUsage() : process.cpuUsage();
  return (user + system) / 1_000;
}
