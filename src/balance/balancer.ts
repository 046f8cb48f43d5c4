/** The base of all balancers: draws an endpoint by weight, and finds an allowed one at last. @module */

import type { Random } from "../base/mod.ts";
import type { EndpointRecord, Excluded } from "./types.ts";

export abstract class Balancer {
  protected readonly random: Random;
  protected members: readonly EndpointRecord[] = [];
  protected usable: readonly EndpointRecord[] = [];

  constructor(random: Random) {
    this.random = random;
  }

  /** Arrays are replaced, never edited: tables made from `members` outlive ejections. */
  update(members: readonly EndpointRecord[], usable: readonly EndpointRecord[]): void {
    this.members = members;
    this.usable = usable;
  }

  /** A usable endpoint outside `excluded`; `undefined`: there is none. */
  abstract pick(hash: number | undefined, excluded: Excluded): EndpointRecord | undefined;
}

/** Draws in proportion to weight: one step where all weights are equal, O(log n) otherwise. */
export class WeightedDraw {
  readonly #size: number;
  /** Running sum of weights; `undefined` when all are equal. */
  readonly #sums: Float64Array | undefined;

  constructor(records: readonly EndpointRecord[]) {
    this.#size = records.length;
    if (equalWeights(records)) return;
    const sums = new Float64Array(records.length);
    let sum = 0;
    records.forEach((record, index) => sums[index] = sum += record.weight);
    this.#sums = sums;
  }

  get equal(): boolean {
    return this.#sums === undefined;
  }

  /** The index that `chance` (in [0, 1)) falls on. */
  draw(chance: number): number {
    const sums = this.#sums;
    if (!sums) return Math.floor(chance * this.#size);
    const wanted = chance * (sums[this.#size - 1] ?? 0);
    let low = 0;
    let high = this.#size - 1;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((sums[middle] ?? 0) > wanted) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}

export function equalWeights(records: readonly EndpointRecord[]): boolean {
  const first = records[0]?.weight;
  return records.every((record) => record.weight === first);
}

/** The first record outside `excluded`, searched from `start` and wrapping at the end. */
export function firstAllowed(
  records: readonly EndpointRecord[],
  excluded: Excluded,
  start: number,
): EndpointRecord | undefined {
  const size = records.length;
  for (let step = 0; step < size; step++) {
    const record = records[(start + step) % size];
    if (record && !excluded?.has(record)) return record;
  }
  return undefined;
}
