import assert from "node:assert/strict";
import { test } from "node:test";
import { noTraffic } from "../../base/mod.ts";
import type { TrafficRowView } from "../../proxy/mod.ts";
import { flowKey, NO_FLOW, TrafficHistory } from "./traffic_history.ts";

/** Requests of 1 ms, or of 1 s where they are slow. */
function row(
  fields: Partial<TrafficRowView> & { readonly fast?: number; readonly slow?: number },
): TrafficRowView {
  const { fast = 0, slow = 0, ...rest } = fields;
  const counts = noTraffic();
  counts[21] = fast;
  counts[61] = slow;
  return {
    direction: "inbound",
    caller: "web",
    upstream: "",
    target: "",
    endpoint: "",
    route: "",
    requests: fast + slow,
    errors: 0,
    counts,
    sumMs: 0,
    receivedBytes: 0,
    sentBytes: 0,
    open: 0,
    ...rest,
  };
}

const WEB = flowKey("caller", "web");

test("TrafficHistory shows averages of the whole life where nothing was read before", () => {
  const history = new TrafficHistory();
  const rows = [row({ fast: 90, slow: 10, errors: 25 }), row({ caller: "api", fast: 100 })];
  const shown = history.read({ rows, past: [], sinceMs: 50_000 }, 1_000_000);
  assert.deepEqual([shown.isWhole, shown.periodMs], [true, 50_000]);
  const web = shown.flows.get(WEB) ?? NO_FLOW;
  assert.deepEqual([web.perSecond, web.errorShare, web.requests], [2, 0.25, 100]);
  assert.ok(web.p50Ms < 2 && web.p99Ms > 800, JSON.stringify(web));
  assert.equal(shown.flows.get(flowKey("inbound"))?.perSecond, 4);
});

test("TrafficHistory shows the last seconds, and forgets them when nobody looks", () => {
  const history = new TrafficHistory();
  const read = (fast: number, slow: number, nowMs: number) => {
    const shown = history.read(
      { rows: [row({ fast, slow, errors: slow })], past: [], sinceMs: nowMs },
      nowMs,
    );
    return { ...shown, web: shown.flows.get(WEB) ?? NO_FLOW };
  };
  read(1_000, 0, 100_000);
  for (let at = 1; at <= 10; at++) read(1_000, 2 * at, 100_000 + 2_000 * at);
  const { web, isWhole, periodMs, inbound } = read(1_000, 22, 122_000);
  assert.deepEqual([isWhole, periodMs], [false, 10_000]);
  assert.deepEqual([web.perSecond, web.errorShare, web.requests], [1, 1, 1_022]);
  assert.ok(web.p50Ms > 800, "old requests do not count");
  assert.deepEqual(inbound, Array.from({ length: 11 }, () => 1));
  // A second viewer right afterwards is no reading of its own.
  assert.equal(read(1_000, 22, 122_100).inbound.length, 11);
  // A worker began again.
  assert.equal(read(5, 0, 124_000).web.perSecond, 0);
  const late = read(6, 0, 200_000);
  assert.deepEqual([late.isWhole, late.inbound.length], [true, 0]);
});

test("TrafficHistory sums rows by upstream, endpoint and route, and bounds their number", () => {
  const history = new TrafficHistory();
  const out = { direction: "outbound", upstream: "db", target: "t" } as const;
  const rows = [
    row({ ...out, endpoint: "a:1", route: "r", fast: 10 }),
    row({ ...out, endpoint: "b:1", route: "", fast: 30 }),
    ...Array.from({ length: 2_000 }, (_, at) => row({ caller: `caller-${at}` })),
  ];
  const { flows } = history.read({ rows, past: [], sinceMs: 1_000 }, 1_000);
  const rates = [
    flowKey("upstream", "db"),
    flowKey("endpoint", "db", "t", "a:1"),
    flowKey("route", "db", ""),
    flowKey("outbound"),
  ].map((key) => flows.get(key)?.perSecond);
  assert.deepEqual(rates, [40, 10, 30, 40]);
  assert.equal(flows.size, 500);
});

test("TrafficHistory counts requests of an endpoint that is gone for its upstream", () => {
  const history = new TrafficHistory();
  const to = { direction: "outbound", upstream: "db", target: "db" } as const;
  const before = [row({ ...to, endpoint: "10.0.0.9:1", fast: 300 })];
  history.read({ rows: before, past: [], sinceMs: 100_000 }, 100_000);
  const rows = [row({ ...to, fast: 20, errors: 20 })];
  const past = [row({ ...to, caller: "", fast: 310 })];
  const { flows } = history.read({ rows, past, sinceMs: 110_000 }, 110_000);
  const db = flows.get(flowKey("upstream", "db")) ?? NO_FLOW;
  assert.deepEqual([db.requests, db.perSecond], [330, 3]);
});
