import assert from "node:assert/strict";
import { test } from "node:test";
import { PROCESS_COLUMN, reservedFor, SharedCounts, SharedLimiter } from "./admission.ts";

for (
  const [upstreams, maxConnections, kept] of [
    [0, 1_000, 0],
    [1, 1_000, 125],
    [9, 1_000, 125],
    [1, 7, 0],
    [1, 65_536, 1_024],
  ] as const
) {
  test(`reservedFor() ${upstreams} upstreams of ${maxConnections} connections: ${kept}`, () =>
    assert.equal(reservedFor(upstreams, maxConnections), kept));
}

for (
  const [row, column, isThere] of [
    [0, PROCESS_COLUMN, true],
    [1, PROCESS_COLUMN, true],
    [2, PROCESS_COLUMN, false],
    [-1, PROCESS_COLUMN, false],
    [0.5, PROCESS_COLUMN, false],
    [1, -1, false],
    [1, 1e9, false],
    [1, NaN, false],
  ] as const
) {
  test(`SharedCounts of two rows ${isThere ? "has" : "has no"} row ${row}, column ${column}`, () => {
    const check = () => SharedCounts.create(2).check(row, column);
    if (isThere) check();
    else assert.throws(check, /there are 2 by/);
  });
}

test("Limiter counts the connections of all workers, and its own", () => {
  const counts = SharedCounts.create(2);
  const [one, other] = [0, 1].map((row) =>
    new SharedLimiter(counts, { row, column: PROCESS_COLUMN, limit: 2 })
  );
  assert.ok(one && other);
  assert.deepEqual([one.enter(), one.full, other.enter(), one.full], [true, false, true, true]);
  assert.equal(other.enter(), false);
  assert.deepEqual([one.taken, one.own, other.own], [2, 1, 1]);
  counts.clearRow(0);
  assert.deepEqual([other.taken, other.enter()], [1, true]);
});
