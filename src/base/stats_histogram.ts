/**
 * Durations by buckets. The buckets are Envoy's defaults, so that dashboards made for it show ours, and
 * the same for all histograms, so that samples of several workers can be added.
 *
 * @module
 */

/** Inclusive upper bounds in ms; one more bucket has the values above all. */
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
  /** A negative value or NaN counts as 0. */
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

  /** Numbers of values in each bucket, and above all of them. */
  get counts(): readonly number[] {
    return Array.from(this.#counts);
  }
}

/** Numbers of values in each bucket or below it: the form of Prometheus. */
export function cumulative(counts: readonly number[]): readonly number[] {
  let sum = 0;
  return counts.map((count) => sum += count);
}
