import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../test/kit/clock/clock.ts";
import { Pace } from "./call.ts";
import { DEFAULT_GRPC_LIMITS } from "./types.ts";

const LIMITS = { ...DEFAULT_GRPC_LIMITS, messageBurst: 4, messagesPerSecond: 10, floodMs: 1_000 };

test("Pace allows a burst at once, then a number of messages a second", () => {
  const clock = new FakeClock();
  const pace = new Pace(clock, LIMITS);
  const waits = Array.from({ length: 6 }, () => pace.waitMs(clock.monotonic()));
  assert.deepEqual(waits, [0, 0, 0, 0, 100, 200]);
});

for (const [spentMs, restMs] of [[0, 0], [1, 2], [100, 200], [125, 250], [1_000, 250]] as const) {
  test(`Pace rests for ${restMs} ms after ${spentMs} ms of work`, async () => {
    const clock = new FakeClock();
    const begunMs = clock.monotonic();
    const pace = new Pace(clock, LIMITS);
    await clock.advance(spentMs);
    assert.equal(pace.waitMs(begunMs), restMs);
  });
}

/** The verdict on a server that sends as fast as it may for `forMs`. */
async function pressing(pace: Pace, clock: FakeClock, forMs: number): Promise<"flood" | undefined> {
  for (const untilMs = clock.monotonic() + forMs; clock.monotonic() < untilMs;) {
    const waitMs = pace.waitMs(clock.monotonic());
    if (waitMs === "flood") return waitMs;
    await clock.advance(waitMs);
  }
  return undefined;
}

test("Pace reports a flood after too long without a rest", async () => {
  const clock = new FakeClock();
  const pace = new Pace(clock, LIMITS);
  assert.equal(await pressing(pace, clock, 900), undefined);
  await clock.advance(400);
  assert.equal(await pressing(pace, clock, 900), undefined);
  assert.equal(await pressing(pace, clock, 900), "flood");
});
