/**
 * Metrics as opentelemetry-proto has them, in Protocol Buffers or JSON: counters are cumulative sums, and
 * histograms have the bounds of Prometheus' buckets.
 *
 * @module
 */

import { BUCKETS_MS, type Labels, type MetricFamily, type Sample } from "../../base/mod.ts";
import { Protobuf } from "../../wire/mod.ts";
import { jsonNumber, keyValues, nanoseconds } from "./otlp.ts";

/** A metric with its points, in both forms. */
export interface EncodedMetric {
  readonly points: number;
  readonly body: Uint8Array | string;
}

const TYPES = {
  // One item of a scope.
  Item: { metric: "2 Metric" },
  Metric: {
    name: "1 string",
    description: "2 string",
    unit: "3 string",
    gauge: "5 oneof Points",
    sum: "7 oneof Points",
    histogram: "9 oneof HistogramPoints",
  },
  Points: {
    dataPoints: "1 repeated NumberDataPoint",
    aggregationTemporality: "2 int32",
    isMonotonic: "3 bool",
  },
  NumberDataPoint: {
    startTimeUnixNano: "2 fixed64",
    timeUnixNano: "3 fixed64",
    asDouble: "4 oneof double",
    attributes: "7 repeated KeyValue",
  },
  HistogramPoints: {
    dataPoints: "1 repeated HistogramDataPoint",
    aggregationTemporality: "2 int32",
  },
  HistogramDataPoint: {
    startTimeUnixNano: "2 fixed64",
    timeUnixNano: "3 fixed64",
    count: "4 fixed64",
    sum: "5 oneof double",
    // Packed.
    bucketCounts: "6 bytes",
    explicitBounds: "7 bytes",
    attributes: "9 repeated KeyValue",
  },
  KeyValue: { key: "1 string", value: "2 AnyValue" },
  AnyValue: { stringValue: "1 oneof string" },
} as const;

const CUMULATIVE = 2;
const UNITS: readonly (readonly [ending: RegExp, unit: string])[] = [
  [/_seconds(_total)?$/, "s"],
  [/_bytes(_total)?$/, "By"],
  [/_ms$/, "ms"],
];

/** Encodes what the proxy measures, again and again. */
export class OtlpMetrics {
  readonly #codec = new Protobuf(TYPES);
  /** The last value of each sum, and since when it has been counted. */
  #seen = new Map<string, { readonly value: number; readonly sinceMs: number }>();
  #lastMs: number;

  /** `startedMs`: when the process began to count, by the wall clock. */
  constructor(startedMs: number) {
    this.#lastMs = startedMs;
  }

  encode(
    families: readonly MetricFamily[],
    { nowMs, json }: { readonly nowMs: number; readonly json: boolean },
  ): readonly EncodedMetric[] {
    const before = this.#seen;
    this.#seen = new Map();
    const encoded = families.map((family) => {
      const metric = this.#metric(family, { nowMs, before, json });
      const body = json ? JSON.stringify(metric) : this.#codec.encode("Item", { metric });
      return { points: family.list.length, body };
    });
    this.#lastMs = nowMs;
    return encoded;
  }

  #metric(
    { name, help, kind, list, divisor }: MetricFamily,
    { nowMs, before, json }: {
      readonly nowMs: number;
      readonly before: ReadonlyMap<string, { readonly value: number; readonly sinceMs: number }>;
      readonly json: boolean;
    },
  ): Readonly<Record<string, unknown>> {
    const unit = UNITS.find(([ending]) => ending.test(name))?.[1];
    const head = { name, description: help, ...(unit !== undefined && { unit }) };
    const timeUnixNano = String(nanoseconds(nowMs));
    /** A sum that falls was counted by a thread that is gone: it began again since the last time. */
    const since = (sample: Sample, value: number): string => {
      const key = `${name}\u0000${JSON.stringify(sample.labels)}`;
      const earlier = before.get(key);
      const isAgain = earlier !== undefined && value < earlier.value;
      const sinceMs = !earlier || isAgain ? this.#lastMs : earlier.sinceMs;
      this.#seen.set(key, { value, sinceMs });
      return String(nanoseconds(sinceMs));
    };
    switch (kind) {
      case "gauge":
        return {
          ...head,
          gauge: {
            dataPoints: list.map(({ labels, value }) => ({
              timeUnixNano,
              asDouble: jsonNumber(value / divisor),
              attributes: attributesOf(labels),
            })),
          },
        };
      case "counter":
        return {
          ...head,
          sum: {
            dataPoints: list.map((sample) => ({
              startTimeUnixNano: since(sample, sample.value),
              timeUnixNano,
              asDouble: jsonNumber(sample.value / divisor),
              attributes: attributesOf(sample.labels),
            })),
            aggregationTemporality: CUMULATIVE,
            isMonotonic: true,
          },
        };
      case "histogram":
        return {
          ...head,
          histogram: {
            dataPoints: list.map((sample) => {
              const { counts = [], boundsMs = BUCKETS_MS, value, labels } = sample;
              const count = counts.reduce((sum, one) => sum + one, 0);
              const bounds = boundsMs.slice(0, counts.length - 1).map((ms) => ms / divisor);
              return {
                startTimeUnixNano: since(sample, count),
                timeUnixNano,
                count: String(count),
                sum: jsonNumber(value / divisor),
                bucketCounts: json ? counts.map(String) : packedCounts(counts),
                explicitBounds: json ? bounds : packedDoubles(bounds),
                attributes: attributesOf(labels),
              };
            }),
            aggregationTemporality: CUMULATIVE,
          },
        };
    }
  }
}

function attributesOf(labels: Labels): readonly object[] {
  return keyValues(Object.entries(labels).flat());
}

function packedCounts(counts: readonly number[]): Uint8Array {
  return new Uint8Array(BigUint64Array.from(counts, (count) => BigInt(count)).buffer);
}

/** Both are in the order of this machine, which is Protocol Buffers' on every platform that is built for. */
function packedDoubles(values: readonly number[]): Uint8Array {
  return new Uint8Array(Float64Array.from(values).buffer);
}
