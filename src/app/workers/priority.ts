/** Priority of the control thread: once the proxy is ready, below that of the threads that carry traffic. @module */

import { getPriority, setPriority } from "node:os";
import process from "node:process";

/** Added to the "nice" value that the process was started with. */
const NICE_STEP = 5;
const LARGEST_NICE = 19;

/** "Nice" values of this thread; `undefined`: it has the priority that the process was started with. */
let lowered: { readonly from: number; readonly to: number } | undefined;

/** Lowers this thread's priority. Threads inherit that of the one which starts them: workers come first. */
export function giveWayToTraffic(): void {
  if (process.platform !== "linux") return;
  const from = getPriority(0);
  const to = Math.min(from + NICE_STEP, LARGEST_NICE);
  if (trySet(to)) lowered = { from, to };
}

/**
 * Calls `start`, which starts a thread that carries traffic. The thread has the priority of the first ones,
 * where this process may raise its own again (root, CAP_SYS_NICE, RLIMIT_NICE); else `isLower` is true.
 */
export function startTrafficThread<T>(
  start: () => T,
): { readonly thread: T; readonly isLower: boolean } {
  if (!lowered) return { thread: start(), isLower: false };
  const { from, to } = lowered;
  const isRaised = trySet(from);
  try {
    return { thread: start(), isLower: !isRaised };
  } finally {
    if (isRaised) trySet(to);
  }
}

/** False: a sandbox forbids it, or the right is missing. */
function trySet(nice: number): boolean {
  try {
    setPriority(0, nice);
    return true;
  } catch {
    return false;
  }
}
