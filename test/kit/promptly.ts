/**
 * Promises about time, on machines that may not run us for a while.
 *
 * @module
 */

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
  while (took.length < 5) {
    const ms = await attempt();
    if (ms < limitMs) return;
    took.push(Math.round(ms));
  }
  throw new Error(`${what} within ${limitMs} ms: it took ${took.join(", ")} ms`);
}
