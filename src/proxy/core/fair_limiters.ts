/**
 * Limits that no single caller can use up, so that others find a place.
 *
 * @module
 */

import { networkOf } from "../../base/mod.ts";
import type { ConnectionLimiter, SharedLimiter } from "./admission.ts";

/** Callers without a place that are kept, so that a busy caller does not allocate an entry each time. */
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

/** A caller takes at most so many times the free places: alone 7/8 of all, fewer beside others. */
const SHARE_OF_FREE = 7;

/** Places of one worker for requests. A caller without a place gets one while any is free. */
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

  /** `caller`: `""` is an unknown caller, which has no share. */
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

  /** Called once for each place, with the same caller. */
  leave(caller: string): void {
    this.#open--;
    if (caller !== "") this.#taken.drop(caller);
  }
}

/** Places for connections of unauthenticated callers; no address takes more than half. */
export class FairConnectionLimiter implements ConnectionLimiter {
  readonly all: SharedLimiter;
  readonly #workers: number;
  /** Places in this worker, by address. */
  readonly #taken = new TakenPlaces();

  /** The kernel spreads the callers of one address over `workers`. */
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

  /** The address has its full share. */
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
