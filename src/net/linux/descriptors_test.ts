import assert from "node:assert/strict";
import { test } from "node:test";
import { resultOf } from "./descriptors.ts";

for (
  const [name, results, ready, want] of [
    ["returns the result", [7], [], 7],
    ["waits for a descriptor that is not ready", [-1], [false], "not yet"],
    ["calls again when the descriptor became ready after the call", [-1, 7], [true], 7],
    [
      "fails when the descriptor is ready and the call fails again",
      [-1, -1],
      [true, true],
      "failed",
    ],
  ] as const
) {
  test(`resultOf() ${name}`, () => {
    const [calls, looks] = [[...results], [...ready]];
    assert.equal(resultOf(() => calls.shift() ?? -1, () => looks.shift() ?? false), want);
    assert.deepEqual([calls, looks], [[], []]);
  });
}
