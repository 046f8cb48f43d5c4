import assert from "node:assert/strict";
import { test } from "node:test";
import { durationNs, goDuration } from "./go_duration.ts";

for (
  const [ns, text] of [
    [0, "0s"],
    [7, "7ns"],
    [1_500, "1.5µs"],
    [15_000_000, "15ms"],
    [1_500_000_000, "1.5s"],
    [90_000_000_000, "1m30s"],
    [3_600_000_000_000, "1h0m0s"],
    [-1_000_000_000, "-1s"],
  ] as const
) {
  test(`goDuration() writes ${ns} as ${text}, which reads back`, () => {
    assert.equal(goDuration(ns), text);
    assert.equal(durationNs(text, "T"), ns);
  });
}

test("durationNs() takes nanoseconds, refuses what is no duration", () => {
  assert.equal(durationNs(7, "T"), 7);
  assert.throws(() => durationNs("5", "T"), /'T' time: invalid duration/);
  assert.throws(() => durationNs(true, "T"), /invalid duration/);
});
