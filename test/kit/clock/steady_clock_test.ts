import assert from "node:assert/strict";
import { test } from "node:test";
import { sleep } from "../../../src/base/mod.ts";
import { SteadyClock } from "./steady_clock.ts";

/** This process does nothing else, as when it gets no processor. */
function stall(ms: number): void {
  const endMs = performance.now() + ms;
  while (performance.now() < endMs);
}

test("SteadyClock runs, and its timers fire in their time and not before", async () => {
  using clock = new SteadyClock();
  const startMs = clock.monotonic();
  await sleep(clock, 30);
  assert.ok(clock.monotonic() - startMs >= 30);
});

test("SteadyClock counts no pause, and delivers pending events before a timer fires", async () => {
  using clock = new SteadyClock();
  const order: string[] = [];
  const slept = sleep(clock, 60).then(() => order.push("timer"));
  const startMs = clock.monotonic();
  stall(150);
  setTimeout(() => order.push("other"), 1);
  assert.ok(clock.monotonic() - startMs <= 10);
  await slept;
  assert.deepEqual(order, ["other", "timer"]);
});

test("SteadyClock.still() keeps time from passing", async () => {
  using clock = new SteadyClock();
  const startMs = clock.monotonic();
  await clock.still(() => new Promise((resolve) => setTimeout(resolve, 60)));
  // A step before it and one after it, at most.
  assert.ok(clock.monotonic() - startMs <= 20);
});

test("SteadyClock.after() can be cancelled", async () => {
  using clock = new SteadyClock();
  clock.after(5, () => assert.fail("it fired")).cancel();
  const late = clock.after(200, () => assert.fail("it fired"));
  await sleep(clock, 10);
  late.cancel();
  await sleep(clock, 220);
});
