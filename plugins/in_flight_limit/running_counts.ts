/**
 * Counts running exchanges by key, in memory that all workers share. Each worker has its own counts, so that
 * those of a worker that died can be cleared.
 *
 * @module
 */

/** Keys that can be counted at a time, and the maximum distance of a key from its first slot. */
const SLOTS = 2_048;
const REACH = 32;

export interface CountedBy {
  /** Index of this worker, and the number of workers. */
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
  /** The release function of each used slot, made once. */
  readonly #releases: (() => void)[] = [];

  /** Made once in the life of a worker. */
  constructor(cells: Int32Array<SharedArrayBuffer>, worker: CountedBy) {
    this.#cells = cells;
    this.#workers = worker.count;
    this.#own = SLOTS + worker.index * SLOTS;
    // Nothing runs here yet; a worker that died may have left counts.
    for (let slot = 0; slot < SLOTS; slot++) Atomics.store(cells, this.#own + slot, 0);
  }

  /** Counts one exchange; call the result once at its end. `undefined`: the limit is reached. */
  enter(key: number, limit: number): (() => void) | undefined {
    const slot = this.#slotOf(key);
    if (slot === undefined) return undefined;
    // Counted first and taken back above the limit, so that two workers never both see room.
    Atomics.add(this.#cells, this.#own + slot, 1);
    const leave = this.#releases[slot] ??= () => void Atomics.sub(this.#cells, this.#own + slot, 1);
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

  /** `undefined`: there is no free slot for another key. */
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
        // A key takes the first free slot, so no key lies behind a slot that was never used.
        if (tag === 0) break;
      }
      if (free < 0) return undefined;
      const tag = Atomics.load(cells, free);
      if (Atomics.compareExchange(cells, free, tag, key) === tag) return free;
    }
  }
}

/** Hash of a text; never 0. With `behind`, the key of a text before it, the hash of both. */
export function keyOf(text: string, behind = 0x811c9dc5): number {
  let hash = behind;
  for (let i = 0; i < text.length; i++) {
    hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
    hash ^= hash >>> 15;
  }
  return hash || 1;
}
