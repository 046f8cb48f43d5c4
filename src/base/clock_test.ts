import assert from "node:assert/strict";
import test from "node:test";
import { systemClock, turnClock } from "./clock.ts";
test("turnClock() reads the clock once until the next microtask", async () => {
  let ms = 1;
  let reads = 0;
  const clock = turnClock({
    now: () => 1_000 + ms,
    monotonic() {
      reads++;
      return ms;
    },
    after: systemClock.after,
  });
  assert.deepEqual([clock.monotonic(), clock.now()], [1, 1_001]);
  ms = 2;
  assert.deepEqual([clock.now(), clock.monotonic(), reads], [1_001, 1, 1]);
  await Promise.resolve();
  assert.deepEqual([clock.monotonic(), clock.now(), reads], [2, 1_002, 2]);
});
