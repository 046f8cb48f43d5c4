import assert from "node:assert/strict";
import { test } from "node:test";
import { sleep } from "../../../src/base/mod.ts";
import { FakeClock } from "./clock.ts";

test("FakeClock.advance() runs due timers in order, each at its own time", async () => {
  const clock = new FakeClock({ startMs: 1_000_000 });
  const ran: [string, number, number][] = [];
  const note = (name: string) => () => ran.push([name, clock.monotonic(), clock.now()]);
  clock.after(20, note("b"));
  clock.after(10, note("a"));
  clock.after(20, note("c"));
  clock.after(31, note("late"));
  await clock.advance(30);
  assert.deepEqual(ran, [["a", 10, 1_000_010], ["b", 20, 1_000_020], ["c", 20, 1_000_020]]);
  assert.equal(clock.monotonic(), 30);
  assert.equal(clock.pending, 1);
  assert.equal(clock.nextInMs, 1);
});

test("FakeClock.advance() lets promises run between timers, and the timers they set", async () => {
  const clock = new FakeClock();
  const ticks: number[] = [];
  const loop = async () => {
    for (let i = 0; i < 3; i++) {
      await sleep(clock, 10);
      ticks.push(clock.monotonic());
    }
  };
  const done = loop();
  await clock.advance(25);
  assert.deepEqual(ticks, [10, 20]);
  await clock.advance(5);
  assert.deepEqual(ticks, [10, 20, 30]);
  await done;
});

test("FakeClock.after() a cancelled timer never runs", async () => {
  const clock = new FakeClock();
  let ran = 0;
  const timer = clock.after(5, () => ran++);
  clock.after(1, () => timer.cancel());
  await clock.advance(100);
  assert.equal(ran, 0);
  assert.equal(clock.pending, 0);
});

test("FakeClock.advanceNow() runs timers without waiting for promises", () => {
  const clock = new FakeClock();
  let ran = 0;
  clock.after(5, () => clock.after(5, () => ran++));
  clock.advanceNow(10);
  assert.equal(ran, 1);
});

test("FakeClock.jump() moves the wall clock alone", () => {
  const clock = new FakeClock({ startMs: 500 });
  clock.after(10, () => assert.fail("a jump must not fire timers"));
  clock.jump(-400);
  assert.equal(clock.now(), 100);
  assert.equal(clock.monotonic(), 0);
});
