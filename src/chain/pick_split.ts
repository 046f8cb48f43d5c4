/**
 * Which way a request goes where there are several with weights: so that they add up over time, and nothing
 * that comes in turns meets the same one each time.
 *
 * @module
 */

import type { Random } from "../base/mod.ts";

/** What no fraction comes near: steps of it fill a circle evenly, and so do every second, third, ... of them. */
const GOLDEN = (Math.sqrt(5) - 1) / 2;

/** Chance that leaves no gap: of any 10,000 numbers as many are below one as it says, but for a few. */
export function evenChance(random: Random): Random {
  let at: number | undefined;
  return () => at = at === undefined ? random() : (at + GOLDEN) % 1;
}

/** `undefined`: there is none. No weight is 0. */
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
