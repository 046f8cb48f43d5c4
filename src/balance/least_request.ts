/**
 * The least busy of a few endpoints drawn at random. Draws are in proportion to weight, and busy means
 * leases per weight: an endpoint with twice the weight is as busy with twice the leases. Among idle
 * endpoints the first drawn wins, so they are used in proportion to weight. With equal weights this is
 * the "power of two choices"; with no more endpoints than choices, all of them are compared.
 *
 * @module
 */

import type { Random } from "../base/mod.ts";
import type { Balancer, EndpointRecord, Excluded } from "./types.ts";
import { firstAllowed, WeightedDraw } from "./weighted.ts";

/** More choices cost time for each connection and no longer balance better. */
const CHOICES_LIMIT = 64;

export class LeastRequest implements Balancer {
  readonly #random: Random;
  readonly #choices: number;
  #usable: readonly EndpointRecord[] = [];
  #draw = new WeightedDraw([]);

  constructor(random: Random, choiceCount: number) {
    this.#random = random;
    this.#choices = choiceCount >= 1 ? Math.min(Math.floor(choiceCount), CHOICES_LIMIT) : 2;
  }

  update(_members: readonly EndpointRecord[], usable: readonly EndpointRecord[]): void {
    this.#usable = usable;
    this.#draw = new WeightedDraw(usable);
  }

  pick(_hash: number | undefined, excluded: Excluded): EndpointRecord | undefined {
    const usable = this.#usable;
    const size = usable.length;
    if (size === 0) return undefined;
    const all = this.#draw.equal && size <= this.#choices;
    const looks = all ? size : this.#choices;
    const start = all ? Math.floor(this.#random() * size) : 0;
    let best: EndpointRecord | undefined;
    for (let look = 0; look < looks; look++) {
      const index = all ? (start + look) % size : this.#draw.draw(this.#random());
      const record = usable[index];
      if (!record || excluded?.has(record)) continue;
      // Compares active / weight without dividing.
      if (!best || record.active * best.weight < best.active * record.weight) best = record;
    }
    return best ?? firstAllowed(usable, excluded, Math.floor(this.#random() * size));
  }
}
