import assert from "node:assert/strict";
import { silentLog } from "../../base/mod.ts";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { createBindRetry, startHeartbeat } from "./plane_checks.ts";
import { test } from "node:test";

function rig(answers: readonly (boolean | Error)[], rival?: string) {
  const clock = new FakeClock();
  const warned: unknown[] = [];
  const stopping = new AbortController();
  let tried = 0;
  let reported = 0;
  const retry = createBindRetry({
    clock,
    log: { ...silentLog, warn: (_message, fields) => void warned.push(fields) },
    signal: stopping.signal,
    onTried: () => Promise.resolve(void reported++),
    findRival: () => Promise.resolve(rival),
    plane: {
      retryFailed() {
        const answer = answers[Math.min(tried++, answers.length - 1)];
        return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer ?? false);
      },
    },
  });
  return { clock, stopping, retry, warned, tried: () => tried, reported: () => reported };
}

test("look() tries again every second until all are bound, and calls onTried after each try", async () => {
  const { clock, retry, tried, reported } = rig([false, false, true]);
  await retry.look();
  await clock.advance(1_000);
  assert.deepEqual([tried(), reported()], [2, 2]);
  await clock.advance(1_000);
  assert.deepEqual([tried(), reported()], [3, 3]);
  await clock.advance(5_000);
  assert.equal(tried(), 3);
});

test("look() starts one timer for concurrent calls", async () => {
  const { clock, retry, tried } = rig([false]);
  await Promise.all([retry.look(), retry.look(), retry.look()]);
  await clock.advance(1_000);
  assert.equal(tried(), 4);
});

test("look() tries again after a worker failed to answer", async () => {
  const { clock, retry, reported } = rig([new Error("gone"), true]);
  await retry.look();
  assert.equal(reported(), 0);
  await clock.advance(1_000);
  assert.equal(reported(), 1);
});

test("look() ends its tries when the signal aborts", async () => {
  const { clock, stopping, retry, tried } = rig([false]);
  await retry.look();
  stopping.abort();
  await clock.advance(5_000);
  assert.equal(tried(), 1);
});

test("look() logs a rival once, and drops it when all are bound", async () => {
  const { clock, retry, warned } = rig([...Array(25).fill(false), true], "another Postern");
  await retry.look();
  for (let tries = 1; tries < 25; tries++) await clock.advance(1_000);
  assert.equal(retry.rival(), "another Postern");
  assert.deepEqual(warned, [{ reason: "another Postern" }]);
  await clock.advance(1_000);
  assert.equal(retry.rival(), "");
});

function heartbeatRig(paths: number) {
  const clock = new FakeClock();
  const world = { answers: [] as readonly (readonly string[])[] };
  const used: string[][] = [];
  const heartbeat = startHeartbeat({
    clock,
    paths,
    signal: new AbortController().signal,
    plane: { used: () => Promise.resolve(world.answers) },
    onUsed: (upstreams) => void used.push([...upstreams]),
  });
  return { clock, world, used, heartbeat };
}

test("Heartbeat is not healthy 20 s after a data path stopped answering", async () => {
  const { clock, world, heartbeat } = heartbeatRig(2);
  world.answers = [[], []];
  await clock.advance(60_000);
  assert.equal(heartbeat(), true);
  world.answers = [[]];
  await clock.advance(15_000);
  assert.equal(heartbeat(), true);
  await clock.advance(5_000);
  assert.equal(heartbeat(), false);
  world.answers = [[], []];
  await clock.advance(5_000);
  assert.equal(heartbeat(), true);
});

test("Heartbeat reports each upstream in use once for all data paths", async () => {
  const { clock, world, used } = heartbeatRig(2);
  world.answers = [["db", "api"], ["db"]];
  await clock.advance(5_000);
  world.answers = [[], []];
  await clock.advance(5_000);
  assert.deepEqual(used, [["db", "api"]]);
});
