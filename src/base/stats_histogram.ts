/**
 * Durations by buckets. The buckets are Envoy's defaults, so that dashboards made for it show ours, and
 * the same for all, so that what several workers observed can be added up.
 *
 * @module
 */

/** Upper bounds in ms, each belonging to its bucket; one more bucket has what is above all. */
export const BUCKETS_MS: readonly number[] = [
  0.5,
  1,
  5,
  10,
  25,
  50,
  100,
  250,
  500,
  1_000,
  2_500,
  5_000,
  10_000,
  30_000,
  60_000,
  300_000,
  600_000,
  1_800_000,
  3_600_000,
];

const MICROS = 1_000;
/** Above it the sum of a few hundred could not be exact any more. */
const MOST_MS = 2 ** 32;

export interface Histogram {
  /** What is below 0 or no number counts as 0. */
  observe(ms: number): void;
}

export class HistogramCell implements Histogram {
  readonly #counts = new Float64Array(BUCKETS_MS.length + 1);
  /** In whole microseconds: adding fractions would add their errors, too. */
  #sumMicros = 0;

  observe(ms: number): void {
    const taken = ms > 0 ? Math.min(ms, MOST_MS) : 0;
    let bucket = 0;
    while (taken > (BUCKETS_MS[bucket] ?? Infinity)) bucket++;
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.#sumMicros += Math.round(taken * MICROS);
  }

  /** The sum in ms. */
  get value(): number {
    return this.#sumMicros / MICROS;
  }

  /** How many fell into each bucket, and above all of them. */
  get counts(): readonly number[] {
    return Array.from(this.#counts);
  }
}

/** How many of all values were in a bucket or below it: what Prometheus wants. */
export function cumulative(counts: readonly number[]): readonly number[] {
  let sum = 0;
  return counts.map((count) => sum += count);
}
