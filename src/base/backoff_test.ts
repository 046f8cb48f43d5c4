import assert from "node:assert/strict";
import { test } from "node:test";
import { Backoff } from "./backoff.ts";
import { seededRandom } from "./clock.ts";

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
