import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../test/kit/clock/clock.ts";
import { silentLog, Stats } from "../base/mod.ts";
import { PluginHost } from "./host.ts";
import { SharedState } from "./shared_state.ts";

function rig() {
  const clock = new FakeClock();
  const stats = new Stats();
  const lender = { log: silentLog, stats, clock, random: () => 0, shared: new SharedState() };
  return { host: new PluginHost("shop", "inbound", lender), clock, stats };
}

test("host.map() keeps the entries used last, and none beyond its time", async () => {
  const { host, clock } = rig();
  const map = host.map<number>({ limit: 2, ttlMs: 1_000 });
  map.set("a", 1);
  map.set("b", 2);
  assert.equal(map.get("a"), 1);
  map.set("c", 3);
  assert.deepEqual(["a", "b", "c"].map((key) => map.get(key)), [1, undefined, 3]);
  map.set("c", 4, 5_000);
  assert.equal(map.size, 2);
  await clock.advance(1_000);
  assert.deepEqual(["a", "c"].map((key) => map.get(key)), [undefined, 4]);
  map.delete("c");
  assert.equal(map.size, 0);
});

for (
  const [limit, ttlMs, reason] of [
    [0, 1, /want a limit from 1 to 100000/],
    [100_001, 1, /want a limit from 1 to 100000/],
    [1, 0, /want a ttlMs above 0/],
    [1, NaN, /want a ttlMs above 0/],
  ] as const
) {
  test(`host.map() refuses a limit of ${limit} and a time of ${ttlMs} ms`, () => {
    assert.throws(() => rig().host.map({ limit, ttlMs }), reason);
  });
}

test("host.stats makes gauges that are set, and histograms of durations", () => {
  const { host, stats } = rig();
  const labels = { of: ["a", "b"] } as const;
  const gauge = host.stats.gauge("depth", { help: "Depth", labels });
  gauge.set(7, { of: "a" });
  gauge.add(-2, { of: "a" });
  const times = host.stats.histogram("lookup", { help: "Time of a lookup" });
  times.observe(3);
  times.observe(30);
  const shown = stats.samples().map(({ name, kind, labels, value }) => [name, kind, labels, value]);
  assert.deepEqual(shown, [
    ["plugin_shop_depth", "gauge", { of: "a" }, 5],
    ["plugin_shop_depth", "gauge", { of: "b" }, 0],
    ["plugin_shop_lookup_ms", "histogram", {}, 33],
  ]);
  assert.throws(() => gauge.set(1, { of: "c" } as never), /metric depth: no such label/);
});
