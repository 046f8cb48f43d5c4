import test from "node:test";
import assert from "node:assert/strict";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { snapshotOf } from "../../../test/kit/engine/snapshots.ts";
import { SharedLimiter } from "../../proxy/core/admission.ts";
import {
  FIRST_UPSTREAM_COLUMN,
  MAX_UPSTREAMS,
  SharedCounts,
  UPSTREAM_COLUMNS,
} from "../../proxy/mod.ts";
import { ColumnTable } from "./columns.ts";

const BASE = snapshotOf({ ca: createAuthority(), service: "web" });

function declaring(...ids: readonly string[]) {
  return { ...BASE, upstreams: Object.fromEntries(ids.map((id) => [id, {} as never])) };
}

function startTable(workers: number) {
  const counts = SharedCounts.create(workers);
  const table = new ColumnTable(counts);
  return {
    counts,
    table,
    apply(...ids: readonly string[]) {
      const snapshot = declaring(...ids);
      const columns = table.for(snapshot);
      table.settled(snapshot);
      return columns;
    },
  };
}

test("ColumnTable uses the columns of removed upstreams again", () => {
  const { counts, apply } = startTable(2);
  const used = new Set<number>();
  for (let turn = 0; turn < 10_000; turn++) {
    const column = apply("stays", `u${turn}`)[`u${turn}`];
    assert.ok(column !== undefined);
    new SharedLimiter(counts, { row: 1, column, limit: 1 });
    used.add(column);
  }
  assert.ok(used.size <= 2, `${used.size} columns`);
  assert.equal(apply("stays").stays, apply("stays", "late").stays);
});

test("ColumnTable keeps the column of a removed upstream while a worker has connections to it", () => {
  const { counts, apply } = startTable(2);
  const column = apply("gone").gone ?? -1;
  const places = new SharedLimiter(counts, { row: 1, column, limit: 1 });
  places.enter();
  apply();
  assert.notEqual(apply("other").other, column);
  assert.equal(apply("gone").gone, column, "the same column again");
  apply();
  places.leave();
  assert.equal(apply("next").next, column);
});

test("ColumnTable frees no column before all workers use the snapshot", () => {
  const { table, apply } = startTable(1);
  const column = apply("gone").gone;
  assert.notEqual(table.for(declaring("next")).next, column);
});

test("ColumnTable leaves out an upstream without room until a column is free", () => {
  const { apply } = startTable(1);
  const ids = Array.from({ length: MAX_UPSTREAMS }, (_, index) => `u${index}`);
  const full = apply(...ids, "late");
  assert.equal(Object.keys(full).length, MAX_UPSTREAMS);
  assert.equal(full.late, undefined);
  apply(...ids.slice(1));
  assert.notEqual(apply(...ids.slice(1), "late").late, undefined);
});

for (
  const [what, row, column] of [
    ["another worker's column", 0, FIRST_UPSTREAM_COLUMN + UPSTREAM_COLUMNS * MAX_UPSTREAMS],
    ["a row beyond the last", 2, 0],
    ["no column", 0, Number.NaN],
  ] as const
) {
  test(`SharedLimiter refuses ${what}`, () => {
    const counts = SharedCounts.create(2);
    assert.throws(
      () => new SharedLimiter(counts, { row, column, limit: 1 }),
      /Cannot count in row/,
    );
  });
}
