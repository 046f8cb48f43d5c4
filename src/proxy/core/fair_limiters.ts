/**
 * Places that no caller takes all of: the others find room, whatever one of them does.
 *
 * @module
 */

import { networkOf } from "../../base/mod.ts";
import type { ConnectionLimiter, SharedLimiter } from "./admission.ts";

/** Callers without a place that are remembered, so that a busy one costs no new entry each time. */
const KEPT_CALLERS = 1_000;

/** The places that each caller has. */
class TakenPlaces {
  readonly #taken = new Map<string, { places: number }>();

  of(caller: string): number {
    return this.#taken.get(caller)?.places ?? 0;
  }

  add(caller: string): void {
    const taken = this.#taken.get(caller);
    if (taken) taken.places++;
    else this.#taken.set(caller, { places: 1 });
  }

  drop(caller: string): void {
    const taken = this.#taken.get(caller);
    if (taken && --taken.places === 0 && this.#taken.size > KEPT_CALLERS) {
      this.#taken.delete(caller);
    }
  }
}

/** A caller has at most so many times the places that are free: alone 7/8 of all, fewer beside others. */
const SHARE_OF_FREE = 7;

/** Places of one worker for requests. A caller that has none gets one as long as one is free. */
export class FairRequestLimiter {
  readonly limit: number;
  #open = 0;
  readonly #taken = new TakenPlaces();

  constructor(limit: number) {
    this.limit = limit;
  }

  get full(): boolean {
    return this.#open >= this.limit;
  }

  /** `caller`: `""` has no share, as nobody knows who it is. */
  enter(caller: string): boolean {
    const free = this.limit - this.#open;
    if (free <= 0) return false;
    if (caller !== "") {
      if (this.#taken.of(caller) >= SHARE_OF_FREE * free) return false;
      this.#taken.add(caller);
    }
    this.#open++;
    return true;
  }

  /** Once after each place that the same caller was given. */
  leave(caller: string): void {
    this.#open--;
    if (caller !== "") this.#taken.drop(caller);
  }
}

/** Places for connections of callers who prove nothing, of which no address takes more than half. */
export class FairConnectionLimiter implements ConnectionLimiter {
  readonly all: SharedLimiter;
  readonly #workers: number;
  /** Of this worker, by address. */
  readonly #taken = new TakenPlaces();

  /** `workers`: among which the kernel spreads the callers from one address. */
  constructor(all: SharedLimiter, workers: number) {
    this.all = all;
    this.#workers = workers;
  }

  get full(): boolean {
    return this.all.full;
  }

  /** Places that one address has in this worker. */
  get share(): number {
    return Math.max(1, Math.floor(this.all.limit / 2 / this.#workers));
  }

  /** Its address has its share. */
  hasShare(remote: string): boolean {
    return this.#taken.of(networkOf(remote)) >= this.share;
  }

  enter(remote: string): boolean {
    if (this.hasShare(remote) || !this.all.enter()) return false;
    this.#taken.add(networkOf(remote));
    return true;
  }

  leave(remote: string): void {
    this.all.leave();
    this.#taken.drop(networkOf(remote));
  }
}
