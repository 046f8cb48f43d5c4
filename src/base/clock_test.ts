import assert from "node:assert/strict";
import { Backoff, seededRandom, systemClock, turnClock } from "./clock.ts";
import { test } from "node:test";

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

function waits(chance: number, count: number): number[] {
  const backoff = new Backoff({ baseMs: 100, maxMs: 1_000, random: () => chance });
  return Array.from({ length: count }, () => backoff.next());
}

test("Backoff doubles up to its maximum", () => {
  assert.deepEqual(waits(1, 6), [100, 200, 400, 800, 1_000, 1_000]);
});

test("Backoff never waits less than half of what is due", () => {
  assert.deepEqual(waits(0, 6), [50, 100, 200, 400, 500, 500]);
});

test("Backoff spreads waits over the upper half", () => {
  const backoff = new Backoff({ baseMs: 1_000, maxMs: 1_000, random: seededRandom(3) });
  const all = Array.from({ length: 1_000 }, () => backoff.next());
  assert.ok(Math.min(...all) >= 500 && Math.max(...all) <= 1_000);
  assert.ok(Math.min(...all) < 510 && Math.max(...all) > 990);
});

test("Backoff counts failures and starts again after a reset", () => {
  const backoff = new Backoff({ baseMs: 100, maxMs: 1_000, random: () => 1 });
  backoff.next();
  backoff.next();
  assert.equal(backoff.failures, 2);
  backoff.reset();
  assert.equal(backoff.failures, 0);
  assert.equal(backoff.next(), 100);
});

test("Backoff stays within its maximum for a long series of failures", () => {
  const backoff = new Backoff({ baseMs: 1, maxMs: 60_000, random: () => 1 });
  for (let i = 0; i < 5_000; i++) assert.ok(backoff.next() <= 60_000);
});
