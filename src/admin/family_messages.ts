/**
 * Metrics as messages of Protocol Buffers, each behind its length: the only format that has native histograms.
 * The numbers of the fields are those of `io.prometheus.client` (metrics.proto).
 *
 * @module
 */

import { Buffer } from "node:buffer";
import {
  BUCKETS_MS,
  cumulative,
  type MetricFamily,
  NATIVE_TRAFFIC,
  type Sample,
  type TrafficCounts,
  type TrafficExemplar,
} from "../base/mod.ts";
import { ProtobufWriter } from "../wire/mod.ts";

const KINDS = { counter: 0, gauge: 1, histogram: 4 } as const;
const FAMILY = { name: 1, help: 2, type: 3, metric: 4 } as const;
const METRIC = { label: 1, gauge: 2, counter: 3, histogram: 7 } as const;
const PAIR = { name: 1, value: 2 } as const;
const BUCKET = { count: 1, bound: 2, exemplar: 3 } as const;
const EXEMPLAR = { label: 1, value: 2, timestamp: 3 } as const;
const HISTOGRAM = {
  count: 1,
  sum: 2,
  bucket: 3,
  schema: 5,
  zeroThreshold: 6,
  zeroCount: 7,
  span: 12,
  delta: 13,
} as const;

/** `shown`: hides secrets in a text. */
export function familyMessages(
  families: readonly MetricFamily[],
  shown: (text: string) => string,
): Uint8Array<ArrayBuffer> {
  const messages = families.map((family) => {
    const writer = new ProtobufWriter();
    writer.text(FAMILY.name, family.name);
    writer.text(FAMILY.help, shown(family.help));
    writer.integer(FAMILY.type, KINDS[family.kind]);
    for (const sample of family.list) {
      writer.within(FAMILY.metric, () => writeMetric(writer, sample, { ...family, shown }));
    }
    return delimited(writer);
  });
  return new Uint8Array(Buffer.concat(messages));
}

/** The length before a message is a number as in the messages. */
function delimited({ bytes, length }: ProtobufWriter): Uint8Array {
  const prefix: number[] = [];
  for (let rest = length; prefix.push(rest > 0x7f ? rest & 0x7f | 0x80 : rest), rest > 0x7f;) {
    rest >>>= 7;
  }
  return Buffer.concat([Uint8Array.from(prefix), bytes.subarray(0, length)]);
}

interface FamilyFacts extends Pick<MetricFamily, "kind" | "divisor"> {
  shown(text: string): string;
}

function writeMetric(
  writer: ProtobufWriter,
  sample: Sample,
  { kind, divisor, shown }: FamilyFacts,
): void {
  for (const [name, value] of Object.entries(sample.labels)) {
    writer.within(METRIC.label, () => writePair(writer, name, shown(value)));
  }
  writer.within(METRIC[kind], () => {
    if (sample.counts) writeHistogram(writer, sample, divisor);
    else writer.double(1, sample.value / divisor);
  });
}

function writePair(writer: ProtobufWriter, name: string, value: string): void {
  writer.text(PAIR.name, name);
  writer.text(PAIR.value, value);
}

function writeHistogram(writer: ProtobufWriter, sample: Sample, divisor: number): void {
  const { counts = [], boundsMs = BUCKETS_MS, value, fine, exemplars } = sample;
  const upTo = cumulative(counts);
  writer.integer(HISTOGRAM.count, upTo.at(-1) ?? 0);
  writer.double(HISTOGRAM.sum, value / divisor);
  for (const [bucket, count] of upTo.entries()) {
    writer.within(HISTOGRAM.bucket, () => {
      writer.integer(BUCKET.count, count);
      writer.double(BUCKET.bound, (boundsMs[bucket] ?? Infinity) / divisor);
      const exemplar = exemplars?.[bucket];
      if (exemplar) writer.within(BUCKET.exemplar, () => writeExemplar(writer, exemplar));
    });
  }
  if (fine) writeNative(writer, fine);
}

function writeExemplar(
  writer: ProtobufWriter,
  { traceId, durationMs, at }: TrafficExemplar,
): void {
  writer.within(EXEMPLAR.label, () => writePair(writer, "trace_id", traceId));
  writer.double(EXEMPLAR.value, durationMs / 1_000);
  writer.within(EXEMPLAR.timestamp, () => {
    writer.integer(1, Math.floor(at / 1_000));
    writer.integer(2, Math.floor(at % 1_000) * 1_000_000);
  });
}

/** Buckets with values, as spans of neighbours; each number as the difference to the one before. */
function writeNative(writer: ProtobufWriter, counts: TrafficCounts): void {
  writer.integer(HISTOGRAM.schema, zigzag(NATIVE_TRAFFIC.schema));
  writer.double(HISTOGRAM.zeroThreshold, NATIVE_TRAFFIC.zeroThreshold);
  writer.integer(HISTOGRAM.zeroCount, counts[0] ?? 0);
  const spans: { offset: number; length: number }[] = [];
  const deltas: number[] = [];
  let before = 0;
  /** Index after the last span. */
  let end = 0;
  for (let bucket = 1; bucket < counts.length; bucket++) {
    const count = counts[bucket] ?? 0;
    if (count === 0) continue;
    const index = NATIVE_TRAFFIC.firstIndex + bucket - 1;
    const last = spans.at(-1);
    if (last && index === end) last.length++;
    else spans.push({ offset: index - end, length: 1 });
    end = index + 1;
    deltas.push(count - before);
    before = count;
  }
  // A histogram without a span is taken for a classic one.
  if (spans.length === 0) spans.push({ offset: 0, length: 0 });
  for (const { offset, length } of spans) {
    writer.within(HISTOGRAM.span, () => {
      writer.integer(1, zigzag(offset));
      writer.integer(2, length);
    });
  }
  for (const delta of deltas) writer.integer(HISTOGRAM.delta, zigzag(delta));
}

function zigzag(value: number): number {
  return value < 0 ? -2 * value - 1 : 2 * value;
}
