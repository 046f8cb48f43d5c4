import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock.ts";
import { trimWhenQuiet } from "./quiet_trim.ts";

test("trimWhenQuiet() trims after the start, and once after each load", async () => {
  const clock = new FakeClock();
  let spent = 5_000;
  let trims = 0;
  trimWhenQuiet({ clock, spentMs: () => spent, trim: () => void trims++ });
  const seen: number[] = [];
  // Processor time in ten seconds each, the first of them beginning three seconds after the start.
  for (const used of [0, 30, 30, 9_000, 9_000, 200, 30, 30, 201, 30]) {
    await clock.advance(seen.length === 0 ? 3_000 : 10_000);
    seen.push(trims);
    spent += used;
  }
  await clock.advance(10_000);
  assert.deepEqual([...seen, trims], [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3]);
});
