import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLog } from "../base/mod.ts";
import { type OpenSharedCells, SharedCells, SharedState } from "./shared_state.ts";

test("SharedCells.lend() lends the same cells for the same key", () => {
  const cells = new SharedCells();
  const memory = cells.lend("a", 4);
  assert.equal(memory.byteLength, 16);
  assert.equal(cells.lend("a", 4), memory);
  assert.notEqual(cells.lend("b", 4), memory);
});

for (const length of [0, -1, 0.5, NaN, 2 ** 20 + 1]) {
  test(`SharedCells.lend() lends no ${length} cells`, () => {
    assert.throws(() => new SharedCells().lend("a", length), /Cannot lend/);
  });
}

test("SharedCells.lend() has a limit, and refuses another length for a known key", () => {
  const cells = new SharedCells();
  for (let i = 0; i < 1_024; i++) cells.lend(`${i}`, 1);
  assert.throws(() => cells.lend("one more", 1), /1048576 of 1048576 are lent already/);
  assert.throws(() => cells.lend("0", 2), /Cannot lend 2 cells for 0: there are 1$/);
  assert.equal(cells.lend("0", 1).byteLength, 4);
});

const bytes = (...cells: number[]) => new Uint8Array(new Int32Array(cells).buffer);
const cellsIn = (memory: SharedArrayBuffer) => [...new Int32Array(memory)];

for (
  const [name, length, survivesUpgrade, want, warnings] of [
    ["goes on with the contents of the process before", 2, true, [7, 8], []],
    ["begins with zeros where the plugin does not ask for them", 2, false, [0, 0], []],
    ["begins with zeros where the size differs, and says so", 3, true, [0, 0, 0], [
      { key: "a", cells: 3, before: 2 },
    ]],
  ] as const
) {
  test(`SharedCells.lend() ${name}`, () => {
    const warned: unknown[] = [];
    const cells = new SharedCells({
      before: [{ key: "a", bytes: bytes(7, 8) }],
      log: { ...silentLog, warn: (_, fields) => void warned.push(fields) },
    });
    const memory = cells.lend("a", length, { survivesUpgrade });
    assert.deepEqual([cellsIn(memory), warned], [want, warnings]);
    cells.goOn([{ key: "a", bytes: bytes(9, 9) }]);
    assert.deepEqual(cellsIn(memory), survivesUpgrade && length === 2 ? [9, 9] : want);
  });
}

test("SharedCells.surviving has copies of what shall survive", () => {
  const cells = new SharedCells();
  cells.lend("a", 2);
  const memory = new Int32Array(cells.lend("b", 2, { survivesUpgrade: true }));
  memory[1] = 5;
  const copies = cells.surviving;
  memory[1] = 6;
  assert.deepEqual(copies, [{ key: "b", bytes: bytes(0, 5) }]);
});

test("SharedCells.goOn() drops what nobody has asked for", () => {
  const before = [{ key: "a", bytes: bytes(7) }];
  const cells = new SharedCells({ before });
  cells.goOn(before);
  assert.deepEqual(cellsIn(cells.lend("a", 1, { survivesUpgrade: true })), [0]);
});

test("SharedState.cells() of two workers are the same memory", async () => {
  const lent = new SharedCells();
  const lendCells: OpenSharedCells = (...asked) => Promise.resolve(lent.lend(...asked));
  const [one, other] = [0, 1].map((worker) => new SharedState({ worker, workers: 2, lendCells }));
  const cells = await one?.cells("a", 2);
  assert.ok(cells);
  await other?.cells("c", 1, { survivesUpgrade: true });
  assert.deepEqual(lent.surviving.map(({ key }) => key), ["c"]);
  Atomics.add(cells, 1, 3);
  assert.equal(await one?.cells("a", 2), cells);
  const [first, second] = await Promise.all([one?.cells("b", 2), one?.cells("b", 2)]);
  assert.equal(first, second);
  assert.deepEqual(await other?.cells("a", 2), new Int32Array([0, 3]));
  assert.deepEqual(await new SharedState().cells("a", 2), new Int32Array(2));
});
