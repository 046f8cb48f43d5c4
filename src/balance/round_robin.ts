/**
 * Each endpoint in turn, those with more weight more often and spread out evenly. A heap has the time of
 * each endpoint's next turn, soonest first; an endpoint's turns are `1 / weight` apart. With equal weights
 * that is plain rotation. Every proxy starts at another endpoint, so that many proxies that start together
 * do not pick the same endpoints in step.
 *
 * @module
 */

import type { Random } from "../base/mod.ts";
import type { EndpointRecord, Excluded } from "./types.ts";
import { Balancer, equalWeights, firstAllowed } from "./balancer.ts";

/** Turns given up to excluded endpoints before the rest is searched in order. */
const TURNS = 4;

export class RoundRobin extends Balancer {
  #schedule: Schedule | undefined;
  #next: number;

  constructor(random: Random) {
    super(random);
    this.#next = Math.floor(random() * 2 ** 30);
  }

  override update(members: readonly EndpointRecord[], usable: readonly EndpointRecord[]): void {
    super.update(members, usable);
    this.#schedule = equalWeights(usable) ? undefined : new Schedule(usable, this.random);
  }

  pick(_hash: number | undefined, excluded: Excluded): EndpointRecord | undefined {
    const usable = this.usable;
    if (usable.length === 0) return undefined;
    for (let turns = 0; turns < TURNS; turns++) {
      const record = usable[this.#turn()];
      if (record && !excluded?.has(record)) return record;
    }
    return firstAllowed(usable, excluded, Math.floor(this.random() * usable.length));
  }

  #turn(): number {
    if (this.#schedule) return this.#schedule.next();
    const size = this.usable.length;
    const index = this.#next % size;
    this.#next = index + 1;
    return index;
  }
}

/** A heap of positions, soonest turn at the root. */
class Schedule {
  readonly #heap: Int32Array;
  readonly #turns: Float64Array;
  readonly #gaps: Float64Array;

  constructor(records: readonly EndpointRecord[], random: Random) {
    const size = records.length;
    this.#heap = Int32Array.from({ length: size }, (_, index) => index);
    this.#gaps = Float64Array.from(records, (record) => 1 / record.weight);
    this.#turns = this.#gaps.map((gap) => gap * random());
    for (let position = (size >>> 1) - 1; position >= 0; position--) this.#sink(position);
  }

  next(): number {
    const index = this.#heap[0] ?? 0;
    this.#turns[index] = (this.#turns[index] ?? 0) + (this.#gaps[index] ?? 1);
    this.#sink(0);
    return index;
  }

  #sink(position: number): void {
    const heap = this.#heap;
    const turns = this.#turns;
    const size = heap.length;
    const index = heap[position] ?? 0;
    const turn = turns[index] ?? 0;
    for (;;) {
      let child = 2 * position + 1;
      if (child >= size) break;
      const right = child + 1;
      if (right < size && (turns[heap[right] ?? 0] ?? 0) < (turns[heap[child] ?? 0] ?? 0)) {
        child = right;
      }
      const childIndex = heap[child] ?? 0;
      if ((turns[childIndex] ?? 0) >= turn) break;
      heap[position] = childIndex;
      position = child;
    }
    heap[position] = index;
  }
}
