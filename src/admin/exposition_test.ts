import { strict as assert } from "node:assert";
import { test } from "node:test";
import { familiesOf, type Sample, Stats, type TrafficKey, TrafficRow } from "../base/mod.ts";
import { plainList, type PlainMessage, Protobuf } from "../wire/mod.ts";
import { NO_TRAFFIC } from "../proxy/mod.ts";
import { expose, openMetricsText } from "./exposition.ts";
import { trafficSamples } from "./traffic_samples.ts";

const KEY: TrafficKey = {
  direction: "inbound",
  caller: "web",
  upstream: "",
  target: "",
  endpoint: "",
  route: "",
};
const TRACE = "0af7651916cd43dd8448eb211c80319c";

/** Durations of a caller; that of 3 ms has a trace. */
function callerSamples(...durationsMs: readonly number[]): readonly Sample[] {
  const row = new TrafficRow(KEY, 0);
  for (const durationMs of durationsMs) {
    const bucket = row.ended(durationMs, false, 0);
    const exemplar = { traceId: TRACE, durationMs, at: 1_500 };
    if (durationMs === 3) row.takeExemplar(bucket, exemplar, 0);
  }
  const { requests, errors, counts, sumMs, exemplars } = row;
  const numbers = { requests, errors, counts, sumMs, exemplars };
  const view = { ...KEY, ...numbers, receivedBytes: 0, sentBytes: 0, open: 0 };
  return trafficSamples({ ...NO_TRAFFIC, rows: [view] })
    .filter(({ name }) => name.startsWith("traffic_caller"));
}

const PROMETHEUS_PROTOBUF =
  "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
const PROMETHEUS = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;" +
  "version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

for (
  const [accept, want] of [
    [undefined, "text/plain; version=0.0.4; charset=utf-8"],
    ["*/*", "text/plain; version=0.0.4; charset=utf-8"],
    ["image/png;q=0.9", "text/plain; version=0.0.4; charset=utf-8"],
    [PROMETHEUS, "application/openmetrics-text; version=1.0.0; charset=utf-8"],
    [`text/plain, ${PROMETHEUS_PROTOBUF};q=0.5`, "text/plain; version=0.0.4; charset=utf-8"],
    [
      `${PROMETHEUS_PROTOBUF};q=0.6,application/openmetrics-text;q=0.5,*/*;q=0.1`,
      "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited",
    ],
    ["application/vnd.google.protobuf", "text/plain; version=0.0.4; charset=utf-8"],
    ["application/openmetrics-text;q=0", "text/plain; version=0.0.4; charset=utf-8"],
  ] as const
) {
  test(`expose() answers to Accept: ${accept}`, async () => {
    assert.equal((await expose([], { accept, hidden: [] })).type, want);
  });
}

test("openMetricsText() has counters without _total in their family's name, and keeps Envoy's names", () => {
  const stats = new Stats();
  stats.counter("a_total", 'A "b"\\').add(1);
  stats.counter("b", "B").add(2);
  stats.counter("b_total", "All b", { x: 'q"' }).add(3);
  stats.gauge("c", "C").set(4);
  assert.equal(
    openMetricsText(familiesOf(stats.samples(), "p_")),
    `# TYPE p_a counter
# HELP p_a A \\"b\\"\\\\
p_a_total 1
# TYPE p_b unknown
# HELP p_b B
p_b 2
# TYPE p_b_total unknown
# HELP p_b_total All b
p_b_total{x="q\\""} 3
# TYPE p_c gauge
# HELP p_c C
p_c 4
# EOF
`,
  );
});

test("openMetricsText() has an exemplar behind the bucket of a request with a trace", () => {
  const text = openMetricsText(familiesOf(callerSamples(0.1, 3), "postern_"));
  const name = "postern_traffic_caller_duration_seconds_bucket";
  assert.match(
    text,
    new RegExp(
      `^${name}{caller="web",le="0.00390625"} 2 # {trace_id="${TRACE}"} 0.003 1.500$`,
      "m",
    ),
  );
  assert.equal(text.split("trace_id").length, 2);
});

/** From Prometheus' metrics.proto; differences and spans are read as they are on the wire. */
const MESSAGES = new Protobuf({
  Family: { name: "1 string", help: "2 string", type: "3 int32", metric: "4 repeated Metric" },
  Metric: {
    label: "1 repeated Pair",
    gauge: "2 Value",
    counter: "3 Value",
    histogram: "7 Histogram",
  },
  Pair: { name: "1 string", value: "2 string" },
  Value: { value: "1 double" },
  Histogram: {
    sampleCount: "1 uint64",
    sampleSum: "2 double",
    bucket: "3 repeated Bucket",
    schema: "5 uint32",
    zeroThreshold: "6 double",
    zeroCount: "7 uint64",
    positiveSpan: "12 repeated Span",
    positiveDelta: "13 repeated uint32",
  },
  Bucket: { cumulativeCount: "1 uint64", upperBound: "2 double", exemplar: "3 Exemplar" },
  Exemplar: { label: "1 repeated Pair", value: "2 double", timestamp: "3 Time" },
  Time: { seconds: "1 int64", nanos: "2 int32" },
  Span: { offset: "1 uint32", length: "2 uint32" },
});

function messagesOf(bytes: Uint8Array): readonly PlainMessage[] {
  const messages: PlainMessage[] = [];
  for (let at = 0; at < bytes.length;) {
    let length = 0;
    for (let shift = 0;; shift += 7) {
      const byte = bytes[at++] ?? 0;
      length |= (byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    messages.push(MESSAGES.decode("Family", bytes.subarray(at, at += length)));
  }
  return messages;
}

const signed = (value: unknown) =>
  Number(value ?? 0) % 2 ? -(Number(value) + 1) / 2 : Number(value ?? 0) / 2;

test("expose() writes native histograms in spans with differences, and hides secrets", async () => {
  const stats = new Stats();
  stats.gauge("open", "Open", { token: "a secret b" }).set(2);
  // Bounds are powers of 2^(1/4) s: 250 and 1000 ms are bounds, the bucket after 1 s has 1,1 s.
  const samples = [...stats.samples(), ...callerSamples(0.01, 250, 1_000, 1_000, 1_000, 1_100)];
  const { body } = await expose(familiesOf(samples, "postern_"), {
    accept: PROMETHEUS_PROTOBUF,
    hidden: ["secret"],
  });
  assert.ok(typeof body !== "string");
  const [open, duration, errors] = messagesOf(body);
  assert.deepEqual([open?.["name"], open?.["type"]], ["postern_open", 1]);
  assert.doesNotMatch(JSON.stringify(open), /secret/);
  assert.deepEqual([errors?.["name"], errors?.["type"]], [
    "postern_traffic_caller_errors_total",
    undefined,
  ]);
  assert.deepEqual([duration?.["name"], duration?.["type"]], [
    "postern_traffic_caller_duration_seconds",
    4,
  ]);
  const [metric] = plainList(duration?.["metric"]);
  const histogram = metric?.["histogram"] as PlainMessage;
  assert.deepEqual([histogram["sampleCount"], histogram["sampleSum"]], ["6", 4.35001]);
  assert.equal(signed(histogram["schema"]), 2);
  assert.deepEqual([histogram["zeroThreshold"], histogram["zeroCount"]], [2 ** -15, "1"]);
  const spans = plainList(histogram["positiveSpan"])
    .map(({ offset, length }) => [signed(offset), length]);
  // 0.25 s is bucket -8; 1 s is 0, and 1.1 s is 1.
  assert.deepEqual(spans, [[-8, 1], [7, 2]]);
  const deltas = histogram["positiveDelta"] as readonly number[];
  assert.deepEqual(deltas.map(signed), [1, 2, -2]);
  const buckets = plainList(histogram["bucket"]);
  assert.deepEqual(buckets.at(-1), { cumulativeCount: "6", upperBound: Infinity });
});

test("expose() gives an empty native histogram a span, and a bucket its exemplar", async () => {
  const histogramOf = async (samples: readonly Sample[]) => {
    const families = familiesOf(samples, "");
    const { body } = await expose(families, { accept: PROMETHEUS_PROTOBUF, hidden: [] });
    assert.ok(typeof body !== "string");
    return plainList(messagesOf(body)[0]?.["metric"])[0]?.["histogram"] as PlainMessage;
  };
  assert.deepEqual((await histogramOf(callerSamples()))["positiveSpan"], [{}]);
  const buckets = plainList((await histogramOf(callerSamples(3)))["bucket"]);
  assert.deepEqual(buckets.flatMap(({ exemplar }) => exemplar ? [exemplar] : []), [{
    label: [{ name: "trace_id", value: TRACE }],
    value: 0.003,
    timestamp: { seconds: 1, nanos: 500_000_000 },
  }]);
});
