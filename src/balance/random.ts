/** Balancers that draw endpoints at random, in proportion to their weights. @module */

import type { EndpointRecord, Excluded } from "./types.ts";
import { Balancer, firstAllowed, WeightedDraw } from "./balancer.ts";
import type { Random } from "../base/mod.ts";

/** Draws that may hit an excluded endpoint before the rest is searched in order. */
const DRAWS = 4;

export class RandomChoice extends Balancer {
  protected draw: WeightedDraw = new WeightedDraw([]);

  override update(members: readonly EndpointRecord[], usable: readonly EndpointRecord[]): void {
    super.update(members, usable);
    this.draw = new WeightedDraw(usable);
  }

  pick(_hash: number | undefined, excluded: Excluded): EndpointRecord | undefined {
    const usable = this.usable;
    if (usable.length === 0) return undefined;
    for (let tries = 0; tries < DRAWS; tries++) {
      const record = usable[this.draw.draw(this.random())];
      if (record && !excluded?.has(record)) return record;
    }
    return firstAllowed(usable, excluded, Math.floor(this.random() * usable.length));
  }
}

/** More choices cost time for each connection and no longer balance better. */
const CHOICES_LIMIT = 64;

/**
 * The least busy of a few endpoints drawn. Busy means leases per weight: an endpoint with twice the weight is
 * as busy with twice the leases. Among idle endpoints the first drawn wins, so they are used in proportion to
 * weight. With equal weights this is the "power of two choices"; with no more endpoints than choices, all of
 * them are compared.
 */
export class LeastRequest extends RandomChoice {
  readonly #choices: number;

  constructor(random: Random, choiceCount: number) {
    super(random);
    this.#choices = choiceCount >= 1 ? Math.min(Math.floor(choiceCount), CHOICES_LIMIT) : 2;
  }

  override pick(_hash: number | undefined, excluded: Excluded): EndpointRecord | undefined {
    const usable = this.usable;
    const size = usable.length;
    if (size === 0) return undefined;
    const all = this.draw.equal && size <= this.#choices;
    const looks = all ? size : this.#choices;
    const start = all ? Math.floor(this.random() * size) : 0;
    let best: EndpointRecord | undefined;
    for (let look = 0; look < looks; look++) {
      const index = all ? (start + look) % size : this.draw.draw(this.random());
      const record = usable[index];
      if (!record || excluded?.has(record)) continue;
      // Compares active / weight without dividing.
      if (!best || record.active * best.weight < best.active * record.weight) best = record;
    }
    return best ?? firstAllowed(usable, excluded, Math.floor(this.random() * size));
  }
}
