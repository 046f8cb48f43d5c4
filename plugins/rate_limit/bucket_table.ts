/**
 * Token buckets in memory that all workers share: a table of sets of slots, indexed by a seeded hash. A full
 * bucket need not be stored, so its slot is free for another.
 *
 * A bucket is one number: the time up to which its tokens are spent, in ticks of its rate, so that taking a
 * token is one compare-and-exchange. It is ahead of the current time by the missing tokens.
 *
 * @module
 */

/** The refill rate and the size of a bucket, in ticks (parts of a token). */
export interface Rate {
  readonly perMs: number;
  readonly token: number;
  readonly burst: number;
}

/** Key of a bucket; seeded, so that callers cannot construct colliding keys. */
export interface KeyHash {
  /** Selects the set. */
  a: number;
  /** Tag of the slot in its set; never 0, the tag of an unused slot. */
  b: number;
}

/** Cells of a slot: the tag of its key, the spent time, and the millisecond when the bucket is full again. */
const TAG = 0;
const SPENT = 1;
const FULL_AT = 2;
const SLOT = 3;
/** Slots of a set. */
const WAYS = 8;
/** Maximum difference between the clocks of two workers. */
const SKEW_MS = 1_000;
/** Ticks; times are 32-bit numbers that wrap around. */
const MOST_AHEAD = 2 ** 30;

/** Requires a `burst` of at least 1 that refills within days. */
export function rateOf(perSecond: number, burst: number): Rate {
  const perMs = perSecond / 1_000;
  const fits = MOST_AHEAD / (burst + 2 * SKEW_MS * perMs);
  const token = 2 ** Math.max(0, Math.min(10, Math.floor(Math.log2(fits))));
  return { perMs: perMs * token, token, burst: burst * token };
}

/** The number of cells for `slots`, a multiple of {@link WAYS}; the first cell is the seed. */
export function cellsFor(slots: number): number {
  return 1 + slots * SLOT;
}

export class BucketTable {
  readonly #cells: Int32Array<SharedArrayBuffer>;
  readonly #sets: number;
  readonly #seed: number;
  readonly #hash: KeyHash = { a: 0, b: 0 };
  readonly #forgot: () => void;

  /** `random`: from 0 up to 1; `forgot`: called when a bucket that was not full is replaced. */
  constructor(cells: Int32Array<SharedArrayBuffer>, { random, forgot }: {
    readonly random: () => number;
    readonly forgot: () => void;
  }) {
    this.#cells = cells;
    this.#sets = Math.floor((cells.length - 1) / SLOT / WAYS);
    // The first worker sets the seed.
    Atomics.compareExchange(cells, 0, 0, Math.floor(random() * 2 ** 32) | 1);
    this.#seed = Atomics.load(cells, 0);
    this.#forgot = forgot;
  }

  /** The key of `text` under the limit `of`; valid until the next call. */
  hash(of: number, text: string): KeyHash {
    let a = mixed(this.#seed ^ of);
    let b = mixed(a + this.#seed);
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      a = Math.imul(a ^ code, 0x85ebca6b);
      a ^= a >>> 13;
      b = Math.imul(b ^ code, 0xc2b2ae35);
      b ^= b >>> 16;
    }
    const hash = this.#hash;
    hash.a = mixed(a) >>> 0;
    hash.b = mixed(b) || 1;
    return hash;
  }

  /** Takes a token of a bucket; an unknown bucket is full. False: there is no token. */
  take({ a, b }: KeyHash, { perMs, token, burst }: Rate, nowMs: number): boolean {
    const cells = this.#cells;
    const at = this.#slotOf(a, b, Math.floor(nowMs) | 0);
    const now = Math.floor(nowMs * perMs) | 0;
    const mostAhead = burst + SKEW_MS * perMs;
    for (;;) {
      const spent = Atomics.load(cells, at + SPENT);
      const ahead = (spent - now) | 0;
      // A time too far ahead belongs to another bucket, or is long past.
      const missing = ahead > 0 && ahead <= mostAhead && !this.#isFull(at, nowMs) ? ahead : 0;
      if (missing + token > burst) return false;
      const next = (now + missing + token) | 0;
      if (Atomics.compareExchange(cells, at + SPENT, spent, next) !== spent) continue;
      Atomics.store(cells, at + FULL_AT, Math.ceil(nowMs + (missing + token) / perMs) | 0);
      return true;
    }
  }

  #isFull(at: number, nowMs: number): boolean {
    return ((Atomics.load(this.#cells, at + FULL_AT) - Math.floor(nowMs)) | 0) < -SKEW_MS;
  }

  /** The slot of the bucket; a new bucket replaces the one that is full first. */
  #slotOf(a: number, b: number, nowMs: number): number {
    const cells = this.#cells;
    const first = 1 + (a % this.#sets) * WAYS * SLOT;
    const end = first + WAYS * SLOT;
    for (;;) {
      let victim = first;
      let leastMs = Infinity;
      for (let at = first; at < end; at += SLOT) {
        const tag = Atomics.load(cells, at + TAG);
        if (tag === b) return at;
        const untilMs = tag === 0 ? -Infinity : (Atomics.load(cells, at + FULL_AT) - nowMs) | 0;
        if (untilMs >= leastMs) continue;
        leastMs = untilMs;
        victim = at;
      }
      const tag = Atomics.load(cells, victim + TAG);
      if (Atomics.compareExchange(cells, victim + TAG, tag, b) !== tag) continue;
      if (leastMs > 0) this.#forgot();
      // A full bucket: at any rate it counts as spent up to now.
      Atomics.store(cells, victim + FULL_AT, (nowMs - 2 * SKEW_MS) | 0);
      return victim;
    }
  }
}

/** Each bit of the result depends on all of `bits`. */
function mixed(bits: number): number {
  let mix = Math.imul(bits ^ bits >>> 16, 0x85ebca6b);
  mix = Math.imul(mix ^ mix >>> 13, 0xc2b2ae35);
  return mix ^ mix >>> 16;
}
