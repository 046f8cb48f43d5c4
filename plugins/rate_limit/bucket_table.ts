/**
 * Token buckets in memory that all workers share: a table of sets of slots, found by a seeded hash. A
 * bucket that has filled up again says nothing, so its slot is free for another.
 *
 * A bucket is one number: the time up to which its tokens are spent, in ticks of its own rate, so that
 * taking one is a single exchange. It is ahead of the time now by what is missing from the bucket.
 *
 * @module
 */

/** How fast tokens come, and how many a full bucket has: all in ticks, parts of a token. */
export interface Rate {
  readonly perMs: number;
  readonly token: number;
  readonly burst: number;
}

/** Key of a bucket; seeded, so that nobody outside can find two that share one. */
export interface KeyHash {
  /** Which set. */
  a: number;
  /** Which of its slots: never 0, which is a slot that nobody has used. */
  b: number;
}

/** Cells of a slot: whose it is, what is spent, and the millisecond when it is full again. */
const TAG = 0;
const SPENT = 1;
const FULL_AT = 2;
const SLOT = 3;
/** Slots of a set. */
const WAYS = 8;
/** The clocks of two workers may be apart by so much. */
const SKEW_MS = 1_000;
/** Ticks; times are numbers of 32 bits that begin anew. */
const MOST_AHEAD = 2 ** 30;

/** `burst` is at least 1, and filled up within days. */
export function rateOf(perSecond: number, burst: number): Rate {
  const perMs = perSecond / 1_000;
  const fits = MOST_AHEAD / (burst + 2 * SKEW_MS * perMs);
  const token = 2 ** Math.max(0, Math.min(10, Math.floor(Math.log2(fits))));
  return { perMs: perMs * token, token, burst: burst * token };
}

/** Cells for so many slots, a multiple of {@link WAYS}; the first cell is the seed. */
export function cellsFor(slots: number): number {
  return 1 + slots * SLOT;
}

export class BucketTable {
  readonly #cells: Int32Array<SharedArrayBuffer>;
  readonly #sets: number;
  readonly #seed: number;
  readonly #hash: KeyHash = { a: 0, b: 0 };
  readonly #forgot: () => void;

  /** `random`: from 0 up to 1; `forgot`: a bucket that was not full made room for another. */
  constructor(cells: Int32Array<SharedArrayBuffer>, { random, forgot }: {
    readonly random: () => number;
    readonly forgot: () => void;
  }) {
    this.#cells = cells;
    this.#sets = Math.floor((cells.length - 1) / SLOT / WAYS);
    // The first of the workers picks it.
    Atomics.compareExchange(cells, 0, 0, Math.floor(random() * 2 ** 32) | 1);
    this.#seed = Atomics.load(cells, 0);
    this.#forgot = forgot;
  }

  /** Of `text`, among those of the limit `of`; good until the next call. */
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

  /** Takes a token of a bucket, which is full where nobody knows of it. False: there is none. */
  take({ a, b }: KeyHash, { perMs, token, burst }: Rate, nowMs: number): boolean {
    const cells = this.#cells;
    const at = this.#slotOf(a, b, Math.floor(nowMs) | 0);
    const now = Math.floor(nowMs * perMs) | 0;
    const mostAhead = burst + SKEW_MS * perMs;
    for (;;) {
      const spent = Atomics.load(cells, at + SPENT);
      const ahead = (spent - now) | 0;
      // What is too far ahead was another bucket's, or long ago.
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

  /** Where the bucket is, or is to be from now on: in the place of the one that is full first. */
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
      // A full one: spent up to now, by its own rate or any.
      Atomics.store(cells, victim + FULL_AT, (nowMs - 2 * SKEW_MS) | 0);
      return victim;
    }
  }
}

/** Each bit of it depends on all of `bits`. */
function mixed(bits: number): number {
  let mix = Math.imul(bits ^ bits >>> 16, 0x85ebca6b);
  mix = Math.imul(mix ^ mix >>> 13, 0xc2b2ae35);
  return mix ^ mix >>> 16;
}
