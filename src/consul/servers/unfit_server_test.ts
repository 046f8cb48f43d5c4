import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { UnfitServer } from "./servers_client.ts";

/** The seconds at which a server is left that refuses at the given seconds. */
async function leavesAt(refusals: readonly number[], random = 0): Promise<number[]> {
  const clock = new FakeClock();
  const unfit = new UnfitServer({ clock, random: () => random });
  const left: number[] = [];
  for (const second of refusals) {
    await clock.advance(second * 1_000 - clock.monotonic());
    if (unfit.failed()) left.push(second);
  }
  return left;
}

const every = (seconds: number, until: number) =>
  Array.from({ length: until / seconds }, (_, at) => at * seconds);

for (
  const [what, refusals, random, left] of [
    ["not for one refusal", [0], 0, []],
    ["not for many refusals at once", [0, 0, 0, 0, 0], 0, []],
    ["not for bursts 20 s apart", [0, 1, 20, 21], 0, []],
    ["for refusals that go on", every(1, 10), 0, [2]],
    ["later, at random", every(1, 20), 0.99, [10]],
    ["for refusals ten seconds apart", [0, 10], 0, [10]],
    ["for refusals that come now and then", [0, 9, 18], 0.99, [18]],
    ["not twice within a minute", every(1, 62), 0, [2]],
    ["again after a minute", every(1, 70), 0, [2, 62]],
  ] as const
) {
  test(`a server is left ${what}`, async () => {
    assert.deepEqual(await leavesAt(refusals, random), left);
  });
}

test("a server without a leader is left, and the next one not within a minute", async () => {
  const clock = new FakeClock();
  const unfit = new UnfitServer({ clock, random: () => 0 });
  assert.equal(unfit.answered(0), false);
  assert.equal(unfit.answered(15_000), false, "an election");
  assert.equal(unfit.answered(15_001), true);
  await clock.advance(59_000);
  assert.equal(unfit.answered(60_000), false);
  await clock.advance(1_000);
  assert.equal(unfit.answered(60_000), true);
});
