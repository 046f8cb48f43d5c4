import assert from "node:assert/strict";
import { test } from "node:test";
import type { DataView } from "../../proxy/mod.ts";
import { readHandedState, stateToHand } from "./handed_state.ts";

const EJECTED = { target: "db", address: "10.0.0.1:1", forMs: 5_000 };
const STATE = { format: 1, ejections: [EJECTED] } as const;

test("stateToHand() has each ejected endpoint once, with its longest ejection", async () => {
  const view = (ejectedForMs: number) =>
    ({ endpoints: [{ target: "db", address: "10.0.0.1:1", ejectedForMs }] }) as unknown as DataView;
  const views = () => Promise.resolve([view(4_000), view(5_000), view(0)]);
  assert.deepEqual(await stateToHand({ views }), STATE);
});

for (
  const [name, given, want] of [
    ["takes a state", STATE, STATE],
    ["leaves out what a later version adds", { ...STATE, more: 1 }, STATE],
    ["takes no other format", { ...STATE, format: 2 }, undefined],
    ["takes no nonsense", "x", undefined],
    ["takes no time that is none", { ...STATE, ejections: [{ ...EJECTED, forMs: -1 }] }, undefined],
    ["takes no endless list", { ...STATE, ejections: Array(10_001).fill(EJECTED) }, undefined],
  ] as const
) {
  test(`readHandedState() ${name}`, () => assert.deepEqual(readHandedState(given), want));
}
