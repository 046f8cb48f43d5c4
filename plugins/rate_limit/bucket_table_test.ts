import assert from "node:assert/strict";
import { test } from "node:test";
import { BucketTable, cellsFor, rateOf } from "./bucket_table.ts";

function tableOf(slots = 64, cells = cellsOf(slots)) {
  const forgotten: string[] = [];
  const table = new BucketTable(cells, { random: () => 0.5, forgot: () => forgotten.push("") });
  return { table, cells, forgotten };
}

function cellsOf(slots: number): Int32Array<SharedArrayBuffer> {
  return new Int32Array(new SharedArrayBuffer(4 * cellsFor(slots)));
}

/** Tokens that can be taken at once. */
function drain(table: BucketTable, key: string, rate: ReturnType<typeof rateOf>, nowMs: number) {
  let taken = 0;
  while (taken < 10_000 && table.take(table.hash(1, key), rate, nowMs)) taken++;
  return taken;
}

for (
  const [perSecond, burst, waits] of [
    [10, 10, [[0, 10], [99, 0], [1, 1], [250, 2], [50, 1], [60_000, 10]]],
    [10, 1, [[0, 1], [99, 0], [1, 1], [1_000, 1]]],
    [2.5, 5, [[0, 5], [399, 0], [1, 1], [800, 2]]],
    [1_000, 1_000, [[0, 1_000], [1, 1], [10, 10]]],
    [1_000_000, 5_000, [[0, 5_000], [1, 1_000]]],
    [0.1, 3, [[0, 3], [9_980, 0], [20, 1], [100_000, 3]]],
  ] as const
) {
  for (const start of [0, 3_333.7, 2 ** 31 - 50, 2 ** 32 - 7, 1e11]) {
    test(`BucketTable.take() of ${perSecond}/s and ${burst} at ${start} ms gives the refilled tokens`, () => {
      const { table } = tableOf();
      const rate = rateOf(perSecond, burst);
      let now = start;
      for (const [waitMs, tokens] of waits) {
        now += waitMs;
        // A tick is a part of a token, so times are rounded.
        assert.equal(drain(table, "a", rate, now + 1e-3 / perSecond), tokens, `after ${waitMs} ms`);
      }
    });
  }
}

test("BucketTable.take() has a bucket for each key", () => {
  const { table } = tableOf();
  const rate = rateOf(1, 3);
  assert.deepEqual(["a", "b", "a"].map((key) => drain(table, key, rate, 0)), [3, 3, 0]);
  assert.equal(table.take(table.hash(2, "a"), rateOf(1, 3), 0), true);
});

test("BucketTable.take() of two tables over the same cells shares buckets", () => {
  const { table, cells } = tableOf();
  const other = new BucketTable(cells, { random: () => 0.9, forgot: () => {} });
  assert.equal(drain(table, "a", rateOf(1, 3), 1_000), 3);
  assert.equal(drain(other, "a", rateOf(1, 3), 1_000), 0);
  // A worker with a slow clock must not see the bucket as full.
  assert.equal(drain(other, "a", rateOf(1, 3), 400), 0);
});

test("BucketTable.take() finds a full bucket after any time without a request", () => {
  for (const idleMs of [1_004, 2 ** 31 / 1_000, 2 ** 31 - 500, 2 ** 31 + 3_000_000]) {
    const { table } = tableOf();
    const rate = rateOf(1_000, 1_000);
    assert.equal(drain(table, "a", rate, 5), 1_000);
    assert.equal(drain(table, "a", rate, 5 + idleMs), 1_000, `after ${idleMs}`);
  }
});

test("BucketTable replaces the bucket that is full first, and reports one that was not full", () => {
  const { table, forgotten } = tableOf(8);
  const rate = rateOf(1, 10);
  for (let i = 0; i < 8; i++) {
    for (let times = 0; times <= i; times++) table.take(table.hash(1, `${i}`), rate, 0);
  }
  assert.equal(forgotten.length, 0);
  table.take(table.hash(1, "9"), rate, 0);
  assert.equal(forgotten.length, 1);
  assert.equal(drain(table, "7", rate, 0), 2, "the emptiest is still known");
  // After a long time all buckets are full, so none is reported.
  for (let i = 0; i < 8; i++) table.take(table.hash(1, `later ${i}`), rate, 20_000);
  assert.equal(forgotten.length, 1);
});

test("BucketTable keeps a bucket for each of many keys", () => {
  const { table, forgotten } = tableOf(8_192);
  const rate = rateOf(1, 1);
  const keys = Array.from({ length: 1_000 }, (_, i) => `spiffe://t/ns/default/dc/dc1/svc/s-${i}`);
  for (const key of keys) assert.equal(table.take(table.hash(1, key), rate, 0), true);
  for (const key of keys) assert.equal(table.take(table.hash(1, key), rate, 0), false);
  assert.equal(forgotten.length, 0);
});
