/**
 * How many exchanges run for each of many keys, in memory that all workers share: each counts its own, so
 * that what a worker held that died can be told from the rest.
 *
 * @module
 */

/** Keys that can be counted at a time, and how far from its first choice the place of one may be. */
const SLOTS = 2_048;
const REACH = 32;

export interface CountedBy {
  /** Of this worker, and how many there are. */
  readonly index: number;
  readonly count: number;
}

export function cellsFor({ count }: CountedBy): number {
  return SLOTS * (1 + count);
}

export class RunningCounts {
  readonly #cells: Int32Array<SharedArrayBuffer>;
  readonly #workers: number;
  readonly #own: number;
  /** Of each slot that was used, made once. */
  readonly #leaves: (() => void)[] = [];

  /** Once in the life of a worker. */
  constructor(cells: Int32Array<SharedArrayBuffer>, worker: CountedBy) {
    this.#cells = cells;
    this.#workers = worker.count;
    this.#own = SLOTS + worker.index * SLOTS;
    // Nothing runs here yet, whatever a worker counted that died.
    for (let slot = 0; slot < SLOTS; slot++) Atomics.store(cells, this.#own + slot, 0);
  }

  /** Counts one more; what it gives is to be called once when that is over. `undefined`: they are too many. */
  enter(key: number, limit: number): (() => void) | undefined {
    const slot = this.#slotOf(key);
    if (slot === undefined) return undefined;
    // Taken first and given back when it was too much, so that two workers never both see room.
    Atomics.add(this.#cells, this.#own + slot, 1);
    const leave = this.#leaves[slot] ??= () => void Atomics.sub(this.#cells, this.#own + slot, 1);
    if (this.#total(slot) <= limit) return leave;
    leave();
    return undefined;
  }

  #total(slot: number): number {
    let sum = 0;
    for (let at = SLOTS + slot; at < SLOTS * (1 + this.#workers); at += SLOTS) {
      sum += Atomics.load(this.#cells, at);
    }
    return sum;
  }

  /** `undefined`: there is room for no other key. */
  #slotOf(key: number): number | undefined {
    const cells = this.#cells;
    const first = key >>> 0;
    for (;;) {
      let free = -1;
      for (let i = 0; i < REACH; i++) {
        const slot = (first + i) % SLOTS;
        const tag = Atomics.load(cells, slot);
        if (tag === key) return slot;
        if (free < 0 && (tag === 0 || this.#total(slot) === 0)) free = slot;
        // Whoever came here took the first that was free: behind one that nobody had there is nothing.
        if (tag === 0) break;
      }
      if (free < 0) return undefined;
      const tag = Atomics.load(cells, free);
      if (Atomics.compareExchange(cells, free, tag, key) === tag) return free;
    }
  }
}

/** Of a key's text, behind another key: never 0. */
export function keyOf(text: string, behind = 0x811c9dc5): number {
  let hash = behind;
  for (let i = 0; i < text.length; i++) {
    hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
    hash ^= hash >>> 15;
  }
  return hash || 1;
}
