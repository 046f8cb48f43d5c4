import { strict as assert } from "node:assert";
import { test } from "node:test";
import { warmingShown } from "../source/parts/own_credentials.ts";
import { fakeAdminView } from "../../test/kit/admin/admin_view.ts";
import { mergeFailures, mergeViews, withWarming } from "./merge.ts";
import { trafficShown } from "./traffic_shown.ts";

const BOUND = {
  name: "inbound",
  direction: "inbound",
  address: "0.0.0.0:21000",
  protocol: "tcp",
  state: "listening",
  error: "",
  fault: "",
  warnings: [],
  connections: 1,
} as const;

/** Texts as the snapshot source writes them. */
function warmingOf(...keys: readonly string[]): readonly string[] {
  return warmingShown({
    certificates: {},
    validations: {},
    ownCredentials: {},
    warming: new Map(keys.map((key) => [key, ["a (b)", "c"]])),
  });
}

for (
  const [name, warming, want] of [
    ["adds a listener that warms", warmingOf("service:default/default/db"), [
      ["inbound", "listening"],
      ["service:default/default/db", "warming"],
    ]],
    ["does not add a listener that is bound", warmingOf("inbound"), [["inbound", "listening"]]],
    ["adds the first word of an unknown text", ["credentials (x)"], [
      ["inbound", "listening"],
      ["credentials", "warming"],
    ]],
    ["adds nothing when nothing warms", [], [["inbound", "listening"]]],
  ] as const
) {
  test(`withWarming() ${name}`, () => {
    const shown = withWarming([BOUND], warming).map((listener) => [listener.name, listener.state]);
    assert.deepEqual(shown, want);
  });
}

for (
  const [name, seen, want] of [
    ["the later failure", [["x", 9_000], ["y", 2_000]], "y, 3 in a row, 2000"],
    [
      "none after a later answer",
      [["x", 9_000], ["", undefined, 8_000]],
      ", 0 in a row, undefined",
    ],
    ["one after an earlier answer", [["", undefined, 9_000], ["x", 8_000]], "x, 3 in a row, 8000"],
    [
      "one that no other worker saw",
      [["", undefined], ["x", undefined]],
      "x, 3 in a row, undefined",
    ],
  ] as const
) {
  test(`mergeFailures() has ${name}`, () => {
    const merged = mergeFailures(seen.map(([lastFailure, failedAgoMs, answeredAgoMs]) => ({
      failures: lastFailure === "" ? 0 : 3,
      lastFailure,
      failedAgoMs,
      answeredAgoMs,
    })));
    assert.equal(`${merged.lastFailure}, ${merged.failures} in a row, ${merged.failedAgoMs}`, want);
  });
}

test("the traffic of all workers is one table, with the latest refusals and slowest requests first", async () => {
  const { traffic } = mergeViews(await fakeAdminView().data(), []);
  const shown = JSON.parse(JSON.stringify(
    trafficShown({ traffic, refusing: [] }, { counts: false }),
  ));
  const [{ p50Ms, p99Ms, recent, ...row }] = shown.rows;
  assert.deepEqual([shown.recentMs, recent.requests, recent.errors], [90_001, 6, 2]);
  assert.deepEqual(row, {
    direction: "inbound",
    caller: "api",
    upstream: "",
    target: "",
    endpoint: "",
    route: "",
    requests: 20,
    errors: 2,
    receivedBytes: 0,
    sentBytes: 0,
    open: 0,
  });
  assert.ok(p50Ms > 0.8 && p50Ms <= p99Ms && p99Ms < 1.2, `${p50Ms} ${p99Ms}`);
  assert.equal(shown.sinceMs, 1_001);
  assert.deepEqual(shown.refusals.map(({ at }: { at: string }) => at), [
    "1970-01-01T00:00:00.001Z",
    "1970-01-01T00:00:00.000Z",
  ]);
  assert.deepEqual(shown.slow.map(({ durationMs }: { durationMs: number }) => durationMs), [
    1.12,
    0.123,
  ]);
});
