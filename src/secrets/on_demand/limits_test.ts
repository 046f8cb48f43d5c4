import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { NegativeNames, SourceRates } from "./limits.ts";

test("SourceRates and NegativeNames drop their oldest entries at the limit", () => {
  const clock = new FakeClock();
  const rates = new SourceRates(clock);
  const negatives = new NegativeNames(clock, () => 0);
  assert.deepEqual([rates.take("10.0.0.1:1", 1), rates.take("10.0.0.1:2", 1)], [true, false]);
  negatives.add("first.x", { reason: "none", ttlMs: 1_000_000 });
  for (let i = 0; i < 25_000; i++) {
    rates.take(`[2001:db8:${(i >> 16).toString(16)}:${(i & 0xffff).toString(16)}::1]:1`, 1);
    negatives.add(`n${i}.x`, { reason: "none", ttlMs: 1_000_000 });
  }
  assert.deepEqual([rates.size, negatives.size], [10_000, 10_000]);
  assert.equal(negatives.get("first.x"), undefined);
  assert.equal(negatives.get("n24999.x"), "none");
  clock.advanceNow(1_000_000);
  assert.equal(negatives.get("n24999.x"), undefined);
});
