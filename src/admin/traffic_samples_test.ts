import { strict as assert } from "node:assert";
import { test } from "node:test";
import { formatPrometheus, type TrafficKey, TrafficRow } from "../base/mod.ts";
import { NO_TRAFFIC, type TrafficRowView } from "../proxy/mod.ts";
import { trafficSamples } from "./traffic_samples.ts";

function row(key: Partial<TrafficKey>, ...durationsMs: readonly number[]): TrafficRowView {
  const empty = { caller: "web", upstream: "", target: "", endpoint: "", route: "" };
  const made = new TrafficRow({ direction: "outbound", ...empty, ...key }, 0);
  for (const ms of durationsMs) made.ended(ms, ms > 1_000, 0);
  const { requests, errors, counts, sumMs } = made;
  return {
    ...made.key,
    requests,
    errors,
    counts,
    sumMs,
    receivedBytes: 0,
    sentBytes: 0,
    open: 0,
  };
}

/** Series that are not 0, without most buckets. */
function shown(rows: readonly TrafficRowView[], past: readonly TrafficRowView[] = []) {
  const text = formatPrometheus(trafficSamples({ ...NO_TRAFFIC, rows, past }), "");
  return text.split("\n").filter((line) => /^[^#].* [^0]/.test(line) && !/le="\d/.test(line));
}

const V2 = { upstream: "db", target: "service:default/default/db#v2.db.default.default.dc1" };
const V2_LABELS = 'upstream="db",target="v2.db.default.default.dc1"';

test("trafficSamples() adds rows up by endpoint and target, those that gave way included", () => {
  const rows = [
    row({ ...V2, endpoint: "10.0.0.1:80" }, 10),
    row({ ...V2, endpoint: "10.0.0.1:80", route: "routes[0]" }, 2_000),
    row({ ...V2, endpoint: "10.0.0.2:80" }, 1),
  ];
  assert.deepEqual(shown(rows, [row(V2, 100)]).filter((line) => !/_bucket|_sum/.test(line)), [
    `traffic_endpoint_duration_seconds_count{${V2_LABELS},endpoint="10.0.0.1:80"} 2`,
    `traffic_endpoint_duration_seconds_count{${V2_LABELS},endpoint="10.0.0.2:80"} 1`,
    `traffic_endpoint_errors_total{${V2_LABELS},endpoint="10.0.0.1:80"} 1`,
    `traffic_target_duration_seconds_count{${V2_LABELS}} 4`,
    `traffic_target_errors_total{${V2_LABELS}} 1`,
  ]);
});

test("trafficSamples() has callers of the service, and what has no row as other", () => {
  const inbound = { direction: "inbound" } as const;
  const rows = [
    row({ ...inbound }, 0.5, 3, 40_000),
    row({ ...inbound, caller: "other" }, 1, 1),
    row({ caller: "other" }, 7),
    row({ upstream: "db" }, 5),
  ];
  assert.deepEqual(shown(rows).filter((line) => /_count|other_total|sum.*web/.test(line)), [
    'traffic_caller_duration_seconds_sum{caller="web"} 40.0035',
    'traffic_caller_duration_seconds_count{caller="web"} 3',
    'traffic_caller_duration_seconds_count{caller="other"} 2',
    'traffic_endpoint_duration_seconds_count{upstream="other",target="other",endpoint="other"} 1',
    'traffic_other_total{direction="inbound"} 2',
    'traffic_other_total{direction="outbound"} 1',
    'traffic_target_duration_seconds_count{upstream="other",target="other"} 1',
  ]);
  const text = formatPrometheus(trafficSamples({ ...NO_TRAFFIC, rows }), "");
  const buckets = [...text.matchAll(/caller="web",le="(.+)"} (\d)/g)].map(([, le, n]) => [le, n]);
  assert.deepEqual(buckets.slice(0, 3), [["0.0009765625", "1"], ["0.001953125", "1"], [
    "0.00390625",
    "2",
  ]]);
  assert.deepEqual(buckets.slice(-2), [["32", "2"], ["+Inf", "3"]]);
});
