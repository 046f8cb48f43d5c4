import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { trimWhenQuiet } from "./quiet_trim.ts";

interface Look {
  readonly afterMs: number;
  /** Processor time since the last look, of this thread and of the others. */
  readonly ownMs: number;
  readonly othersMs?: number;
}

/** Number of trims so far after each look. */
async function trimsOf(looks: readonly Look[], afterLoads: boolean): Promise<number[]> {
  const clock = new FakeClock();
  let own = 5_000;
  let others = 2_000;
  let trims = 0;
  const spentMs = (of: "thread" | "process") => of === "thread" ? own : own + others;
  trimWhenQuiet({ clock, spentMs, trim: () => void trims++, afterLoads });
  const seen: number[] = [];
  for (const { afterMs, ownMs, othersMs = 0 } of looks) {
    own += ownMs;
    others += othersMs;
    await clock.advance(afterMs);
    seen.push(trims);
  }
  return seen;
}

const START: Look[] = [900, 21, 20].map((ownMs) => ({ afterMs: 1_000, ownMs, othersMs: 500 }));
const LOADS: Look[] = [30, 9_000, 9_000, 370, 30, 371, 30].map((othersMs) => ({
  afterMs: 10_000,
  ownMs: 30,
  othersMs,
}));

test("trimWhenQuiet() trims after the start of its thread and once after each load", async () => {
  assert.deepEqual(await trimsOf([...START, ...LOADS], true), [0, 0, 1, 1, 1, 1, 2, 2, 2, 3]);
});

test("trimWhenQuiet() does not trim while a load from the start goes on", async () => {
  const load = Array.from({ length: 30 }, () => ({ afterMs: 1_000, ownMs: 990 }));
  assert.equal((await trimsOf(load, true)).at(-1), 0);
});

test("trimWhenQuiet() trims after 11 looks at a thread that polls Consul all the time", async () => {
  const polling = Array.from({ length: 12 }, () => ({ afterMs: 1_000, ownMs: 30 }));
  assert.deepEqual((await trimsOf(polling, true)).slice(-3), [0, 1, 1]);
  const loads = [310, 9_000, 400].map((ownMs) => ({ afterMs: 10_000, ownMs }));
  assert.deepEqual((await trimsOf([...polling.slice(1), ...loads], true)).slice(-3), [1, 1, 2]);
});

test("trimWhenQuiet() without afterLoads trims once", async () => {
  assert.deepEqual(await trimsOf([...START, ...LOADS], false), [0, 0, 1, 1, 1, 1, 1, 1, 1, 1]);
});
