import assert from "node:assert/strict";
import { test } from "node:test";
import { reaches, testsNear } from "./near.ts";

const TESTS = [
  "src/policy/intention_test.ts",
  "src/identity/chain_test.ts",
  "test/conformance/balance/balance_test.ts",
  "test/kit/clock/clock_test.ts",
];

for (
  const [name, file, want] of [
    ["itself", "test/kit/clock/clock_test.ts", ["test/kit/clock/clock_test.ts"]],
    ["the one of its name", "src/policy/intention.ts", ["src/policy/intention_test.ts"]],
    ["the one that imports it", "test/kit/clock/clock.ts", ["test/kit/clock/clock_test.ts"]],
    ["those beside it, where it has none", "src/policy/new.ts", ["src/policy/intention_test.ts"]],
    ["none of what is no code", "README.md", []],
  ] as const
) {
  test(`testsNear() finds ${name}`, () => assert.deepEqual(testsNear([file], TESTS), want));
}

test("reaches() follows imports through modules that tests share", () => {
  assert.ok(reaches("test/conformance/balance/balance_test.ts", "test/kit/clock/long.ts"));
  assert.equal(reaches("src/policy/intention_test.ts", "test/kit/clock/long.ts"), false);
});
