import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../test/kit/clock.ts";
import { Deadlines } from "./deadlines.ts";
import { seededRandom } from "./random.ts";

test("Deadlines calls each once, never early and at most a tenth of a second late", () => {
  const clock = new FakeClock();
  const deadlines = new Deadlines(clock);
  const random = seededRandom(5);
  const late: number[] = [];
  for (let i = 0; i < 500; i++) {
    const delayMs = [50, 1_000, 10_000][i % 3] ?? 0;
    const dueMs = clock.monotonic() + delayMs;
    deadlines.after(delayMs, () => late.push(clock.monotonic() - dueMs));
    clock.advanceNow(random() * 60);
  }
  clock.advanceNow(20_000);
  assert.equal(late.length, 500);
  assert.ok(Math.min(...late) >= 0 && Math.max(...late) <= 100, `${Math.max(...late)} ms late`);
  assert.equal(clock.pending, 0);
});

test("Deadlines calls none that was cancelled, wherever in its list it stood", () => {
  for (const cancelled of [0, 1, 2, 3]) {
    const clock = new FakeClock();
    const deadlines = new Deadlines(clock);
    const called: number[] = [];
    const all = [0, 1, 2, 3].map((each) => deadlines.after(100, () => called.push(each)));
    all[cancelled]?.cancel();
    all[cancelled]?.cancel();
    clock.advanceNow(1_000);
    assert.deepEqual(called, [0, 1, 2, 3].filter((each) => each !== cancelled));
    for (const each of all) each.cancel();
  }
});

test("Deadlines keeps one timer for many, and takes new ones from a call", () => {
  const clock = new FakeClock();
  const deadlines = new Deadlines(clock);
  let called = 0;
  for (let i = 0; i < 1_000; i++) {
    deadlines.after(1_000, () => {
      called++;
      deadlines.after(1_000, () => called++);
    });
  }
  assert.equal(clock.pending, 1);
  clock.advanceNow(1_100);
  assert.equal(called, 1_000);
  assert.equal(clock.pending, 1);
  clock.advanceNow(1_200);
  assert.equal(called, 2_000);
});

test("Deadlines lets a short deadline set after a long one come first", () => {
  const clock = new FakeClock();
  const deadlines = new Deadlines(clock);
  const called: string[] = [];
  deadlines.after(60_000, () => called.push("long"));
  deadlines.after(200, () => called.push("short"));
  clock.advanceNow(300);
  assert.deepEqual(called, ["short"]);
  clock.advanceNow(60_000);
  assert.deepEqual(called, ["short", "long"]);
});
