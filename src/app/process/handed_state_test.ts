import assert from "node:assert/strict";
import { test } from "node:test";
import type { DataView } from "../../proxy/mod.ts";
import { silentLog } from "../../base/mod.ts";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { readHandedState, resumedState, stateToHand } from "./handed_state.ts";

const EJECTED = { target: "db", address: "10.0.0.1:1", forMs: 5_000 };
const BYTES = new Uint8Array([1, 0, 0, 0, 255, 255, 255, 127]);
const CELLS = { nowMs: 0, contents: [{ key: "limit/all", base64: "AQAAAP///38=" }] } as const;
const STATE = { format: 1, ejections: [EJECTED], cells: CELLS } as const;

test("stateToHand() has each ejected endpoint once, with its longest ejection", async () => {
  const view = (ejectedForMs: number) =>
    ({ endpoints: [{ target: "db", address: "10.0.0.1:1", ejectedForMs }] }) as unknown as DataView;
  const views = () => Promise.resolve([view(4_000), view(5_000), view(0)]);
  const cells = () => [{ key: "limit/all", bytes: BYTES }];
  assert.deepEqual(await stateToHand({ views, cells }, new FakeClock()), STATE);
});

for (
  const [name, sentMs, isTaken] of [
    ["has the shared state of plugins", 0, true],
    ["has the state of a process that is a little late", -4_999, true],
    ["has no state whose times mean something else", -5_001, false],
    ["has no state whose times are to come", 5_001, false],
  ] as const
) {
  test(`resumedState() ${name}`, () => {
    const state = { ...STATE, cells: { ...CELLS, contents: [...CELLS.contents], nowMs: sentMs } };
    const warnings: string[] = [];
    const log = { ...silentLog, warn: (message: string) => void warnings.push(message) };
    assert.deepEqual(resumedState({ ...state, ejections: [] }, { clock: new FakeClock(), log }), {
      ejections: [],
      cells: isTaken ? [{ key: "limit/all", bytes: BYTES }] : [],
    });
    assert.equal(warnings.length, isTaken ? 0 : 1);
  });
}

const withCells = (contents: unknown) => ({ ...STATE, cells: { nowMs: 0, contents } });
const BIG = { key: "a", base64: "A".repeat(2_800_000) };

for (
  const [name, given, want] of [
    ["takes a state", STATE, STATE],
    ["leaves out what a later version adds", { ...STATE, more: 1 }, STATE],
    ["takes the state of an earlier version", { format: 1, ejections: [] }, {
      format: 1,
      ejections: [],
    }],
    ["takes no other format", { ...STATE, format: 2 }, undefined],
    ["takes no nonsense", "x", undefined],
    ["takes no time that is none", { ...STATE, ejections: [{ ...EJECTED, forMs: -1 }] }, undefined],
    ["takes no cells that are no text", withCells([{ key: "a", base64: 1 }]), undefined],
    ["takes no more cells than plugins can have", withCells([BIG, BIG, BIG]), undefined],
    ["takes no more keys than plugins can have", withCells(Array(1_025).fill(BIG)), undefined],
    ["takes no endless list", { ...STATE, ejections: Array(10_001).fill(EJECTED) }, undefined],
  ] as const
) {
  test(`readHandedState() ${name}`, () => assert.deepEqual(readHandedState(given), want));
}
