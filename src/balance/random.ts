/**
 * A random endpoint, in proportion to its weight.
 *
 * @module
 */

import type { Random } from "../base/mod.ts";
import type { Balancer, EndpointRecord, Excluded } from "./types.ts";
import { firstAllowed, WeightedDraw } from "./weighted.ts";

/** Draws that may hit an excluded endpoint before the rest is searched in order. */
const DRAWS = 4;

export class RandomChoice implements Balancer {
  readonly #random: Random;
  #usable: readonly EndpointRecord[] = [];
  #draw = new WeightedDraw([]);

  constructor(random: Random) {
    this.#random = random;
  }

  update(_members: readonly EndpointRecord[], usable: readonly EndpointRecord[]): void {
    this.#usable = usable;
    this.#draw = new WeightedDraw(usable);
  }

  pick(_hash: number | undefined, excluded: Excluded): EndpointRecord | undefined {
    const usable = this.#usable;
    if (usable.length === 0) return undefined;
    for (let tries = 0; tries < DRAWS; tries++) {
      const record = usable[this.#draw.draw(this.#random())];
      if (record && !excluded?.has(record)) return record;
    }
    return firstAllowed(usable, excluded, Math.floor(this.#random() * usable.length));
  }
}
