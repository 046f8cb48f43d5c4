/**
 * Which way a request goes where there are several with weights: by chance, as with Envoy, so that they
 * add up over time and nothing that comes in turns meets the same one each time.
 *
 * @module
 */

import type { Random } from "../base/mod.ts";

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
