/** Promises about time, on machines that may not run us for a while. @module */

import { OWN_ENGINE } from "../process/postern.ts";

/** Time from saving a plugin to its first request. Deno joins modules in JavaScript, and compiles more slowly. */
export const LOADED_MS = OWN_ENGINE === "bun" ? 300 : 1_000;

/**
 * Fails unless `attempt`, which resolves with the milliseconds that it took, once takes less than
 * `limitMs`: noise makes one attempt slow, a defect every one.
 */
export async function promptly(
  what: string,
  limitMs: number,
  attempt: () => Promise<number>,
): Promise<void> {
  const took: number[] = [];
  while (took.length < 10) {
    const ms = await attempt();
    if (ms < limitMs) return;
    took.push(Math.round(ms));
  }
  throw new Error(`${what} within ${limitMs} ms: it took ${took.join(", ")} ms`);
}

/** The share of many rounds that must be in time; a defect makes most of them slow. */
const MOST = 0.7;

/** Fails unless most of these milliseconds are less than `limitMs`. */
export function assertMostlyWithin(
  what: string,
  limitMs: number,
  tookMs: readonly number[],
): void {
  const inTime = tookMs.filter((ms) => ms < limitMs).length;
  if (inTime > 0 && inTime >= MOST * tookMs.length) return;
  throw new Error(
    `${what} within ${limitMs} ms: it took ${tookMs.map(Math.round).join(", ")} ms`,
  );
}
