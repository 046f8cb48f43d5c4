import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { Heartbeat } from "./heartbeat.ts";

function rig(paths: number) {
  const clock = new FakeClock();
  const world = { answers: [] as readonly (readonly string[])[] };
  const used: string[][] = [];
  const heartbeat = new Heartbeat({
    clock,
    paths,
    signal: new AbortController().signal,
    plane: { used: () => Promise.resolve(world.answers) },
    onUsed: (upstreams) => void used.push([...upstreams]),
  });
  return { clock, world, used, heartbeat };
}

test("Heartbeat is not healthy 20 s after a data path stopped answering", async () => {
  const { clock, world, heartbeat } = rig(2);
  world.answers = [[], []];
  await clock.advance(60_000);
  assert.equal(heartbeat.healthy, true);
  world.answers = [[]];
  await clock.advance(15_000);
  assert.equal(heartbeat.healthy, true);
  await clock.advance(5_000);
  assert.equal(heartbeat.healthy, false);
  world.answers = [[], []];
  await clock.advance(5_000);
  assert.equal(heartbeat.healthy, true);
});

test("Heartbeat reports each upstream in use once for all data paths", async () => {
  const { clock, world, used } = rig(2);
  world.answers = [["db", "api"], ["db"]];
  await clock.advance(5_000);
  world.answers = [[], []];
  await clock.advance(5_000);
  assert.deepEqual(used, [["db", "api"]]);
});
