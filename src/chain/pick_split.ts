/**
 * Picks one of several weighted splits for a request: shares are exact over time, and requests that
 * alternate in a pattern do not meet the same split each time.
 *
 * @module
 */

import type { Random } from "../base/mod.ts";

/** The golden ratio: steps of it fill a circle evenly, and so do every second, third, ... of them. */
const GOLDEN = (Math.sqrt(5) - 1) / 2;

/** Evenly spread chance: its share of numbers below any limit is exact, within a few of 10,000. */
export function evenChance(random: Random): Random {
  let at: number | undefined;
  return () => at = at === undefined ? random() : (at + GOLDEN) % 1;
}

/** `undefined`: there is no split. No weight is 0. */
export function pickSplit<Split extends { readonly weight: number }>(
  splits: readonly Split[],
  random: Random,
): Split | undefined {
  if (splits.length === 1) return splits[0];
  let total = 0;
  for (const { weight } of splits) total += weight;
  let left = random() * total;
  for (const split of splits) {
    left -= split.weight;
    if (left < 0) return split;
  }
  return splits.at(-1);
}
