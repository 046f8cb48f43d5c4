/**
 * Which threads the kernel prefers where there are more of them than processors: those that carry
 * traffic. A burst of news (a thousand certificates, a large catalog) is then read a little later, and
 * no request waits for it.
 *
 * @module
 */

import { getPriority, setPriority } from "node:os";
import process from "node:process";

/** What the main thread adds to the "nice" value that the process was started with. */
const STEP_BACK = 5;
const LEAST = 19;

/**
 * Lets the calling thread stand back (on Linux a priority is a thread's own). Once data workers run:
 * threads made later begin with the priority of their maker.
 */
export function giveWayToTraffic(): void {
  if (process.platform !== "linux") return;
  try {
    setPriority(0, Math.min(getPriority(0) + STEP_BACK, LEAST));
  } catch {
    // A sandbox may forbid it; then all threads stay level.
  }
}
