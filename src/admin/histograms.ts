/** Histograms in `/stats`, in Envoy's forms: quantiles or buckets, of all time. @module */

import { BUCKETS_MS, cumulative, type Sample } from "../base/mod.ts";

export interface HistogramStat {
  readonly counts: NonNullable<Sample["counts"]>;
  readonly boundsMs?: Sample["boundsMs"] | undefined;
}

/** `?histogram_buckets=`: quantiles, or the values up to each bound, or those of each bucket. */
export type HistogramForm = "quantiles" | "cumulative" | "disjoint";

export const HISTOGRAM_FORMS: Readonly<Record<string, HistogramForm>> = {
  none: "quantiles",
  summary: "quantiles",
  cumulative: "cumulative",
  disjoint: "disjoint",
};

const QUANTILES = [0, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 100];

/** Evenly spread within a bucket, as Prometheus estimates it; `null`: nothing was measured. */
function quantileMs(
  { counts, boundsMs = BUCKETS_MS }: HistogramStat,
  quantile: number,
): number | null {
  const upTo = cumulative(counts);
  const total = upTo.at(-1) ?? 0;
  if (total === 0) return null;
  const rank = quantile * total;
  const bucket = upTo.findIndex((count) => count > 0 && count >= rank);
  const low = boundsMs[bucket - 1] ?? 0;
  const high = boundsMs[bucket] ?? low;
  const before = upTo[bucket - 1] ?? 0;
  const within = counts[bucket] ?? 0;
  return within === 0 ? low : low + (high - low) * Math.max(rank - before, 0) / within;
}

/** Bounds of buckets and the numbers of values; the values above all bounds are in none, as in Envoy. */
function bucketsOf({ counts, boundsMs = BUCKETS_MS }: HistogramStat, form: HistogramForm) {
  const shown = form === "cumulative" ? cumulative(counts) : counts;
  return boundsMs.map((bound, bucket) => ({ upper_bound: bound, count: shown[bucket] ?? 0 }));
}

/** Envoy shows the last interval and all time; there are no intervals here. */
export function histogramText(histogram: HistogramStat, form: HistogramForm): string {
  if (form !== "quantiles") {
    return bucketsOf(histogram, form)
      .map(({ upper_bound, count }) => `B${digits(upper_bound)}(nan,${count})`).join(" ");
  }
  if (histogram.counts.every((count) => count === 0)) return "No recorded values";
  return QUANTILES.map((quantile) =>
    `P${quantile}(nan,${digits(quantileMs(histogram, quantile / 100) ?? 0)})`
  ).join(" ");
}

/** The one entry of all histograms. */
export function histogramsJson(
  named: readonly { readonly name: string; readonly histogram: HistogramStat }[],
  form: HistogramForm,
): unknown {
  if (form === "quantiles") {
    const computed = named.map(({ name, histogram }) => ({
      name,
      values: QUANTILES.map((quantile) => ({
        interval: null,
        cumulative: quantileMs(histogram, quantile / 100),
      })),
    }));
    return { supported_quantiles: QUANTILES, computed_quantiles: computed };
  }
  return named.map(({ name, histogram }) => ({
    name,
    buckets: bucketsOf(histogram, form).map(({ upper_bound, count }) => {
      return { upper_bound, interval: null, cumulative: count };
    }),
  }));
}

/** Buckets say no more than four digits. */
function digits(ms: number): number {
  return Number(ms.toPrecision(4));
}
