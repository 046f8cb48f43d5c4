import assert from "node:assert/strict";
import { test } from "node:test";
import { SharedCells, SharedState } from "./shared_state.ts";

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

test("SharedState.cells() of two workers are the same memory", async () => {
  const lent = new SharedCells();
  const lendCells = (key: string, length: number) => Promise.resolve(lent.lend(key, length));
  const [one, other] = [0, 1].map((worker) => new SharedState({ worker, workers: 2, lendCells }));
  const cells = await one?.cells("a", 2);
  assert.ok(cells);
  Atomics.add(cells, 1, 3);
  assert.equal(await one?.cells("a", 2), cells);
  const [first, second] = await Promise.all([one?.cells("b", 2), one?.cells("b", 2)]);
  assert.equal(first, second);
  assert.deepEqual(await other?.cells("a", 2), new Int32Array([0, 3]));
  assert.deepEqual(await new SharedState().cells("a", 2), new Int32Array(2));
});
