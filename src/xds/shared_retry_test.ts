import assert from "node:assert/strict";
import test from "node:test";
import { FakeClock } from "../../test/kit/clock/clock.ts";
import { SharedRetry } from "./xds_stream.ts";

const BOUNDS = { baseMs: 500, maxMs: 30_000 };

test("SharedRetry waits in [0, b), with b doubling from 500 ms to 30 s until reset()", async () => {
  for (const [share, wanted] of [[0, 0], [0.5, 0.5], [0.999, 0.999]] as const) {
    const clock = new FakeClock();
    const retry = new SharedRetry({ clock, random: () => share, ...BOUNDS });
    const waits = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000];
    for (const ceilingMs of waits) {
      retry.wait(() => {});
      assert.equal(clock.nextInMs, wanted * ceilingMs);
      await clock.advance(ceilingMs);
    }
    retry.reset();
    retry.wait(() => {});
    assert.equal(clock.nextInMs, wanted * 500);
  }
});

test("SharedRetry has one wait for streams that fail together", async () => {
  const clock = new FakeClock();
  const retry = new SharedRetry({ clock, random: () => 0.5, ...BOUNDS });
  const called: number[] = [];
  const timers = [1, 2, 3].map((number) => retry.wait(() => void called.push(number)));
  assert.equal(clock.pending, 1);
  timers[1]?.cancel();
  await clock.advance(250);
  assert.deepEqual(called, [1, 3]);
  const last = retry.wait(() => void called.push(4));
  assert.equal(clock.nextInMs, 500, "they count as one failure");
  last.cancel();
  assert.equal(clock.pending, 0);
});
