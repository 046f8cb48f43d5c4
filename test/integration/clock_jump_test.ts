/**
 * The wall clock jumps: open connections stay, deadlines hold, and certificates not valid at the new
 * time are refused until the time is right again.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Clock, systemClock } from "../../src/base/mod.ts";
import { openClient } from "../kit/engine/data_path.ts";
import { startEcho } from "../kit/wire/echo.ts";
import { startPathPair } from "../kit/engine/path_pair.ts";

const DAY_MS = 24 * 3_600_000;

function jumpingClock(): Clock & { jump(ms: number): void } {
  let offsetMs = 0;
  return {
    now: () => systemClock.now() + offsetMs,
    monotonic: () => systemClock.monotonic(),
    after: (delayMs, fn) => systemClock.after(delayMs, fn),
    jump: (ms) => {
      offsetMs += ms;
    },
  };
}

for (const [way, jumpMs] of [["forward", 100 * DAY_MS], ["back", -100 * DAY_MS]] as const) {
  test(`a clock that jumps ${way} cuts no open connection and lets no caller in wrongly`, async () => {
    await using echo = await startEcho();
    const clock = jumpingClock();
    await using pair = await startPathPair({ localPort: echo.port, db: { clock } });
    await using open = await openClient(pair.port);
    open.send("hello");
    await open.read(5);

    clock.jump(jumpMs);
    open.send("still");
    assert.equal(String(await open.read(5)), "still");
    if (jumpMs > 0) {
      for (const { path } of [pair.web, pair.db]) {
        const faults = path.listeners().map(({ fault }) => fault);
        const isDb = path === pair.db.path;
        assert.ok(faults.every((fault) => /^our own.*expired/.test(fault) === isDb), `${faults}`);
      }
    }
    await using stranger = await openClient(pair.port);
    stranger.send("hello");
    await assert.rejects(stranger.read(5));
    assert.equal(echo.accepted, 1, "the application must not see a connection at that time");

    clock.jump(-jumpMs);
    await using later = await openClient(pair.port);
    later.send("right");
    assert.equal(String(await later.read(5)), "right");
  });
}
