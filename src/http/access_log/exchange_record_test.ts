import assert from "node:assert/strict";
import { test } from "node:test";
import { FLAG, FLAG_WORDS, flagsText } from "./exchange_record.ts";

for (
  const [flags, short, long] of [
    [0, "", ""],
    [FLAG.UH, "UH", "NoHealthyUpstream"],
    [FLAG.URX | FLAG.UF, "UF,URX", "UpstreamConnectionFailure,UpstreamRetryLimitExceeded"],
    [FLAG.DR, "DR", "DownstreamRemoteReset"],
  ] as const
) {
  test(`flagsText() of ${short || "nothing"}`, () => {
    assert.equal(flagsText(flags), short);
    assert.equal(flagsText(flags, "long"), long);
  });
}

test("every flag has its own bit", () => {
  const bits = Object.values(FLAG);
  assert.equal(new Set(bits).size, Object.keys(FLAG_WORDS).length);
  for (const bit of bits) assert.equal(bit & (bit - 1), 0);
});
