/**
 * Tests that only repeat, soak or measure run in `deno task test:long`; an ordinary run prints the
 * rounds that it leaves for it, which the runner counts.
 *
 * @module
 */

import assert from "node:assert/strict";
import process from "node:process";

const IS_LONG = process.env.POSTERN_LONG !== undefined;

/** `few` rounds of `what` in an ordinary run, `all` in a long one. */
export function rounds(what: string, { few, all }: Record<"few" | "all", number>): number {
  if (IS_LONG) return all;
  console.log(`left for test:long: ${all - few} of ${all} ${what}`);
  return few;
}

/**
 * Asserts a promise about time in the long run; an ordinary run, where much else runs, leaves it for
 * that.
 */
export function inTime(what: string, tookMs: number, limitMs: number): void {
  if (IS_LONG) assert.ok(tookMs < limitMs, `${what}: after ${tookMs} ms, limit ${limitMs} ms`);
  else console.log(`left for test:long: ${what} within ${limitMs} ms`);
}
