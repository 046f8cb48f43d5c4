/**
 * Places for callers who prove nothing, of which no address takes more than half: the others, as whoever
 * looks after health, find room whatever one does.
 *
 * @module
 */

import type { Limiter, Places } from "./admission.ts";
import { sourceOf } from "./handshakes.ts";

export class FairPlaces implements Places {
  readonly all: Limiter;
  readonly #workers: number;
  /** Of this worker; only of addresses that have one. */
  readonly #held = new Map<string, number>();

  /** `workers`: among which the kernel spreads the callers from one address. */
  constructor(all: Limiter, workers: number) {
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
    return (this.#held.get(sourceOf(remote)) ?? 0) >= this.share;
  }

  enter(remote: string): boolean {
    if (this.hasShare(remote) || !this.all.enter()) return false;
    const key = sourceOf(remote);
    this.#held.set(key, (this.#held.get(key) ?? 0) + 1);
    return true;
  }

  leave(remote: string): void {
    this.all.leave();
    const key = sourceOf(remote);
    const held = (this.#held.get(key) ?? 0) - 1;
    if (held > 0) this.#held.set(key, held);
    else this.#held.delete(key);
  }
}
