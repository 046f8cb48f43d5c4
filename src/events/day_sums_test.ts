import assert from "node:assert/strict";
import { test } from "node:test";
import { DaySums } from "./day_sums.ts";

const NOW_MS = Date.parse("2026-01-31T12:30:00Z");
const HOUR_MS = 3_600_000;
const DB = { kind: "endpoint", subject: "db", severity: "warn" } as const;

test("DaySums counts by kind, severity and subject, most first", () => {
  const sums = new DaySums();
  sums.add(DB, NOW_MS - 23 * HOUR_MS);
  sums.add(DB, NOW_MS);
  sums.add({ kind: "endpoint", subject: "a b" }, NOW_MS);
  sums.add({ kind: "chain", subject: "db" }, NOW_MS, 7);
  assert.deepEqual(sums.shown(NOW_MS), {
    kinds: [
      { kind: "chain", info: 7, warn: 0, error: 0 },
      { kind: "endpoint", info: 1, warn: 2, error: 0 },
    ],
    subjects: [
      { kind: "chain", subject: "db", count: 7 },
      { kind: "endpoint", subject: "db", count: 2 },
      { kind: "endpoint", subject: "a b", count: 1 },
    ],
  });
  assert.deepEqual(sums.shown(NOW_MS + 25 * HOUR_MS).kinds, []);
});

test("DaySums bounds hours and subjects, and counts each event once", () => {
  const sums = new DaySums();
  for (let at = 0; at < 100_000; at++) {
    sums.add({ ...DB, subject: `db-${at}` }, NOW_MS + at * 2_000);
  }
  const nowMs = NOW_MS + 200_000_000;
  const stored = sums.stored(nowMs);
  assert.ok(stored.length <= 25);
  assert.ok(stored.every(({ subjects }) => Object.keys(subjects).length <= 51));
  const [{ warn = 0 } = {}] = sums.shown(nowMs).kinds;
  const all = stored.flatMap(({ subjects }) => Object.values(subjects)).reduce((a, b) => a + b, 0);
  assert.equal(warn, all);
  assert.equal(sums.shown(nowMs).subjects[0]?.subject, "several");
});

test("DaySums of a clock that was set back counts on", () => {
  const sums = new DaySums();
  sums.add(DB, NOW_MS);
  sums.add(DB, NOW_MS - 5 * HOUR_MS);
  assert.equal(sums.shown(NOW_MS).kinds[0]?.warn, 2);
});

test("DaySums.restore() adds those of an earlier process", () => {
  const [earlier, sums] = [new DaySums(), new DaySums()];
  earlier.add(DB, NOW_MS - HOUR_MS);
  earlier.add(DB, NOW_MS);
  sums.add(DB, NOW_MS);
  sums.restore(earlier.stored(NOW_MS), NOW_MS);
  assert.equal(sums.shown(NOW_MS).kinds[0]?.warn, 3);
  assert.deepEqual(sums.shown(NOW_MS).subjects, [{ kind: "endpoint", subject: "db", count: 3 }]);
});
