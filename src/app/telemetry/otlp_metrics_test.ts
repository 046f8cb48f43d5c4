import assert from "node:assert/strict";
import { test } from "node:test";
import type { MetricFamily } from "../../base/mod.ts";
import { Protobuf } from "../../wire/mod.ts";
import { OtlpMetrics } from "./otlp_metrics.ts";

const START = 1_700_000_000_000;

function family(
  kind: MetricFamily["kind"],
  value: number,
  counts?: readonly number[],
): MetricFamily {
  const name = kind === "histogram" ? "postern_wait_seconds" : `postern_${kind}_total`;
  const sample = { name: "x", kind, help: "Help", labels: { peer: "web" }, value };
  return {
    name,
    kind,
    help: "Help",
    divisor: kind === "histogram" ? 1_000 : 1,
    list: [counts ? { ...sample, counts, boundsMs: [1, 500] } : sample],
  };
}

/** The point of the only metric, at `nowMs`. */
function pointOf(
  metrics: OtlpMetrics,
  given: MetricFamily,
  nowMs: number,
): Readonly<Record<string, unknown>> {
  const [{ body } = { body: "" }] = metrics.encode([given], { nowMs, json: true });
  const { name: _name, description: _description, unit, ...points } = JSON.parse(String(body));
  const [[kind, { dataPoints: [point], ...rest }] = ["", { dataPoints: [] }]] = Object
    .entries<{ readonly dataPoints: readonly Readonly<Record<string, unknown>>[] }>(points);
  return { kind, unit, ...rest, ...point };
}

const ATTRIBUTES = [{ key: "peer", value: { stringValue: "web" } }];
const AT = "1700000005000000000";

for (
  const [given, wanted] of [
    [family("gauge", 2.5), { kind: "gauge", asDouble: 2.5 }],
    [family("gauge", NaN), { kind: "gauge", asDouble: "NaN" }],
    [family("counter", 7), {
      kind: "sum",
      isMonotonic: true,
      aggregationTemporality: 2,
      startTimeUnixNano: "1700000000000000000",
      asDouble: 7,
    }],
    [family("histogram", 1_502, [2, 0, 1]), {
      kind: "histogram",
      unit: "s",
      aggregationTemporality: 2,
      startTimeUnixNano: "1700000000000000000",
      count: "3",
      sum: 1.502,
      bucketCounts: ["2", "0", "1"],
      explicitBounds: [0.001, 0.5],
    }],
  ] as const
) {
  test(`OtlpMetrics.encode() of a ${given.kind}: ${JSON.stringify(given.list[0]?.value)}`, () => {
    const { unit, ...point } = pointOf(new OtlpMetrics(START), given, START + 5_000);
    assert.deepEqual({ ...point, ...(unit !== undefined && { unit }) }, {
      ...wanted,
      timeUnixNano: AT,
      attributes: ATTRIBUTES,
    });
  });
}

test("OtlpMetrics begins a sum again that falls, as after a data worker died", () => {
  const metrics = new OtlpMetrics(START);
  const starts = [5, 9, 3, 4].map((value, at) =>
    pointOf(metrics, family("counter", value), START + (at + 1) * 1_000)["startTimeUnixNano"]
  );
  const first = "1700000000000000000";
  const again = "1700000002000000000";
  assert.deepEqual(starts, [first, first, again, again]);
});

test("OtlpMetrics.encode() in Protocol Buffers has packed counts and bounds", () => {
  const given = family("histogram", 1_502, [2, 0, 1]);
  const options = { nowMs: START, json: false };
  const [{ body, points } = { body: "", points: 0 }] = new OtlpMetrics(START)
    .encode([given], options);
  assert.equal(points, 1);
  assert.ok(typeof body !== "string");
  const types = {
    Item: { metric: "2 Metric" },
    Metric: { name: "1 string", unit: "3 string", histogram: "9 Histogram" },
    Histogram: { points: "1 repeated Point", temporality: "2 int32" },
    Point: { count: "4 fixed64", sum: "5 double", counts: "6 bytes", bounds: "7 bytes" },
  };
  const { metric: { histogram, ...head } } = new Protobuf(types).decode("Item", body) as {
    readonly metric: {
      readonly histogram: {
        readonly temporality: number;
        readonly points: readonly Readonly<Record<"counts" | "bounds", Uint8Array>>[];
      };
    };
  };
  assert.deepEqual(head, { name: "postern_wait_seconds", unit: "s" });
  assert.equal(histogram.temporality, 2);
  const [{ counts, bounds, ...point } = { counts: new Uint8Array(), bounds: new Uint8Array() }] =
    histogram.points;
  assert.deepEqual(point, { count: "3", sum: 1.502 });
  assert.deepEqual([...new BigUint64Array(counts.slice().buffer)], [2n, 0n, 1n]);
  assert.deepEqual([...new Float64Array(bounds.slice().buffer)], [0.001, 0.5]);
});
