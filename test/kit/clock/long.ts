/**
 * What only repeats, soaks or measures runs in `deno task test:long`; an ordinary run says what it leaves
 * for it, which the runner counts.
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

/** Of a promise about time: an ordinary run, where much else runs, says only that it was kept at all. */
export function inTime(what: string, tookMs: number, limitMs: number): void {
  if (IS_LONG) assert.ok(tookMs < limitMs, `${what}: after ${tookMs} ms, limit ${limitMs} ms`);
  else console.log(`left for test:long: ${what} within ${limitMs} ms`);
}
