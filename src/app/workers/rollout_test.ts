import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { declared, snapshotOf } from "../../../test/kit/engine/snapshots.ts";
import { createLog, type LogRecord, Stats } from "../../base/mod.ts";
import {
  type Columns,
  FIRST_UPSTREAM_COLUMN,
  MAX_UPSTREAMS,
  type PublishEffect,
  SharedCounts,
  UPSTREAM_COLUMNS,
} from "../../proxy/mod.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import { ColumnTable } from "./column_table.ts";
import { Rollout, type RolloutMember } from "./rollout.ts";
import { SharedLimiter } from "../../proxy/core/admission.ts";

const BASE = snapshotOf({ ca: createAuthority(), service: "web" });
const [A, B, C]: readonly Snapshot[] = [1, 2, 3].map((version) => ({ ...BASE, version }));
assert.ok(A && B && C);

/** Prepares every snapshot, unless the test sets another verdict. */
class FakeMember implements RolloutMember {
  published: Snapshot | undefined;
  /** Calls: `prepare 1`, `publish 1`, `given up: why`. */
  readonly log: string[] = [];
  columns: Columns = {};
  verdict: (snapshot: Snapshot) => Promise<boolean> = () => Promise.resolve(true);
  publishes: () => Promise<readonly PublishEffect[]> = () => Promise.resolve([]);

  prepare(snapshot: Snapshot): Promise<boolean> {
    this.log.push(`prepare ${snapshot.version}`);
    return this.verdict(snapshot);
  }

  publish(snapshot: Snapshot, columns: Columns): Promise<readonly PublishEffect[]> {
    this.log.push(`publish ${snapshot.version}`);
    this.published = snapshot;
    this.columns = columns;
    return this.publishes();
  }

  abandon(): void {
    this.log.push("abandon");
  }

  giveUp(reason: string): void {
    this.log.push(`given up: ${reason}`);
    this.published = undefined;
    this.verdict = () => Promise.resolve(false);
  }

  /** The next prepare() stays open until `answer` is called. */
  holdsBack(): { readonly answer: (verdict: boolean | Error) => void } {
    const held = Promise.withResolvers<boolean>();
    const before = this.verdict;
    this.verdict = () => {
      this.verdict = before;
      return held.promise;
    };
    return {
      answer: (verdict) => verdict instanceof Error ? held.reject(verdict) : held.resolve(verdict),
    };
  }

  refuses(...versions: readonly number[]): void {
    this.verdict = ({ version }) =>
      versions.includes(version) ? Promise.reject(new Error("bad key")) : Promise.resolve(true);
  }
}

function world(count: number) {
  const clock = new FakeClock();
  const lines: LogRecord[] = [];
  const stats = new Stats();
  const members = Array.from({ length: count }, () => new FakeMember());
  const rollout = new Rollout({
    clock,
    log: createLog({ clock, holder: { level: "info" }, write: (line) => lines.push(line) }),
    stats,
    counts: SharedCounts.create(count),
    members,
  });
  const metric = (name: string) => stats.samples().find((sample) => sample.name === name)?.value;
  return { clock, lines, members, rollout, metric, logs: () => members.map(({ log }) => log) };
}

test("Rollout publishes nowhere before all members have prepared", async () => {
  const { members, rollout, logs, clock, metric } = world(2);
  const { answer } = members[1]?.holdsBack() ?? assert.fail();
  const applied = rollout.apply(A);
  await clock.advance(0);
  assert.deepEqual(logs(), [["prepare 1"], ["prepare 1"]]);
  assert.equal(rollout.published, undefined);
  answer(true);
  await applied;
  assert.deepEqual(logs(), [["prepare 1", "publish 1"], ["prepare 1", "publish 1"]]);
  assert.equal(rollout.published, A);
  assert.equal(metric("snapshot_version"), 1);
});

test("Rollout refuses a snapshot as a whole, logs the reason once, and takes the next one", async () => {
  const { members, rollout, logs, lines, metric, clock } = world(2);
  await rollout.apply(A);
  members[1]?.refuses(2, 3);
  await rollout.apply(B);
  assert.equal(rollout.published, A);
  assert.deepEqual(rollout.refused, [{ what: "snapshot", reason: "bad key" }]);
  assert.equal(metric("snapshot_version"), 1);
  rollout.look();
  await clock.advance(3_600_000);
  assert.deepEqual(logs()[0], ["prepare 1", "publish 1", "prepare 2", "abandon"], "one call");
  await rollout.apply(C);
  assert.equal(metric("snapshots_refused_total"), 2);
  members[1]?.refuses();
  await rollout.apply({ ...C, version: 4 });
  assert.deepEqual(rollout.refused, []);
  assert.deepEqual(lines.map(({ level, message, fields }) => [level, message, fields.reason]), [
    ["error", "snapshot refused, the old one serves on", "bad key"],
    ["info", "snapshot taken again", undefined],
  ]);
});

test("Rollout serves nothing when the first snapshot is refused", async () => {
  const { members, rollout, lines } = world(1);
  members[0]?.refuses(1);
  await rollout.apply(A);
  assert.equal(rollout.published, undefined);
  assert.equal(lines[0]?.message, "snapshot refused, nothing is served");
});

test("Rollout goes on without a stuck member after 12 s; the member gets the newest snapshot later", async () => {
  const { members, rollout, logs, clock } = world(2);
  await rollout.apply(A);
  const { answer } = members[1]?.holdsBack() ?? assert.fail();
  const applied = rollout.apply(B);
  await clock.advance(11_999);
  assert.equal(rollout.published, A);
  await clock.advance(1);
  await applied;
  assert.equal(rollout.published, B);
  await rollout.apply(C);
  assert.deepEqual(logs()[1], ["prepare 1", "publish 1", "prepare 2"], "no calls are queued");
  answer(true);
  await clock.advance(0);
  assert.deepEqual(logs()[1]?.slice(3), ["abandon", "prepare 3", "publish 3"]);
});

test("Rollout does not let a stuck member publish a refused snapshot", async () => {
  const { members, rollout, logs, clock } = world(2);
  await rollout.apply(A);
  const { answer } = members[0]?.holdsBack() ?? assert.fail();
  members[1]?.refuses(2);
  const applied = rollout.apply(B);
  await clock.advance(12_000);
  await applied;
  answer(true);
  await clock.advance(0);
  assert.deepEqual(logs(), [
    ["prepare 1", "publish 1", "prepare 2", "abandon"],
    ["prepare 1", "publish 1", "prepare 2"],
  ]);
});

test("Rollout waits without a limit for its only member", async () => {
  const { members, rollout, clock } = world(1);
  const { answer } = members[0]?.holdsBack() ?? assert.fail();
  const applied = rollout.apply(A);
  await clock.advance(60_000);
  assert.equal(rollout.published, undefined);
  answer(true);
  await applied;
  assert.equal(rollout.published, A);
});

test("Rollout does not call members that are gone; one that comes back gets the snapshot in force", async () => {
  const { members, rollout, logs, clock } = world(2);
  const [, second] = members;
  assert.ok(second);
  second.verdict = () => Promise.resolve(false);
  await rollout.apply(A);
  assert.equal(rollout.published, A);
  await clock.advance(0);
  second.log.length = 0;
  await clock.advance(3_600_000);
  assert.deepEqual(logs()[1], [], "no member is called again");
  second.verdict = () => Promise.resolve(true);
  rollout.look();
  await clock.advance(0);
  assert.deepEqual(logs()[1], ["prepare 1", "publish 1"]);
});

test("Rollout without members lets the first one decide about the newest snapshot", async () => {
  const { members, rollout, logs, clock } = world(2);
  for (const member of members) member.verdict = () => Promise.resolve(false);
  const applied = [rollout.apply(A), rollout.apply(B)];
  await clock.advance(60_000);
  assert.equal(rollout.published, undefined);
  members[0]?.refuses();
  rollout.look();
  await Promise.all(applied);
  assert.equal(rollout.published, B);
  assert.equal(logs()[0]?.at(-1), "publish 2");
});

test("Rollout tries only the newest of the snapshots that wait", async () => {
  const { members, rollout, logs } = world(1);
  const { answer } = members[0]?.holdsBack() ?? assert.fail();
  const applied = [A, B, C].map((snapshot) => rollout.apply(snapshot));
  answer(true);
  await Promise.all(applied);
  assert.deepEqual(logs()[0], ["prepare 1", "publish 1", "prepare 3", "publish 3"]);
});

test("Rollout gives a member the newer snapshot that came into force while it prepared", async () => {
  const { members, rollout, logs, clock } = world(2);
  const [, second] = members;
  assert.ok(second);
  second.verdict = () => Promise.resolve(false);
  await rollout.apply(A);
  await clock.advance(0);
  second.verdict = () => Promise.resolve(true);
  second.log.length = 0;
  const { answer } = second.holdsBack();
  rollout.look();
  await rollout.apply(B);
  answer(true);
  await clock.advance(0);
  assert.deepEqual(logs()[1], ["prepare 1", "prepare 2", "publish 2"]);
});

test("Rollout gives up a member that refuses the snapshot in force", async () => {
  const { members, rollout, logs, clock } = world(2);
  const [, second] = members;
  assert.ok(second);
  second.verdict = () => Promise.resolve(false);
  await rollout.apply(A);
  second.refuses(1);
  rollout.look();
  await clock.advance(0);
  assert.ok(logs()[1]?.includes("given up: it refuses the snapshot in force: bad key"));
  assert.equal(rollout.published, A);
});

test("Rollout gives up a member whose publish() fails", async () => {
  const { members, rollout, logs } = world(2);
  const [first] = members;
  assert.ok(first);
  first.publishes = () => Promise.reject(new Error("no column"));
  await rollout.apply(A);
  const reason = "it could not publish what it had prepared: no column";
  assert.ok(logs()[0]?.includes(`given up: ${reason}`));
  assert.equal(rollout.published, A);
});

test("Rollout waits at most 12 s for a member that publishes", async () => {
  const { members, rollout, clock } = world(2);
  const [first] = members;
  assert.ok(first);
  first.publishes = () => new Promise(() => {});
  const applied = rollout.apply(A);
  await clock.advance(12_000);
  await applied;
  first.log.length = 0;
  await rollout.apply(B);
  assert.deepEqual(first.log, []);
});

test("Rollout frees columns when every member has published the snapshot in force", async () => {
  const { members, rollout, clock } = world(2);
  const [first, second] = members;
  assert.ok(first && second);
  const names = (count: number, of: string) =>
    Array.from({ length: count }, (_, index) => ({ name: `${of}${index}` }));
  await rollout.apply({ ...A, ...declared(...names(MAX_UPSTREAMS, "old")) });
  const { answer } = second.holdsBack();
  const applied = rollout.apply(B);
  await clock.advance(12_000);
  await applied;
  await rollout.apply({ ...C, ...declared({ name: "new" }) });
  assert.deepEqual(first.columns, {}, "the second member may still use them");
  answer(true);
  await clock.advance(0);
  await rollout.apply({ ...C, version: 4, ...declared({ name: "new" }) });
  assert.equal(Object.keys(first.columns).length, 1);
  assert.deepEqual(second.columns, first.columns);
});

test("Rollout frees no columns while a member publishes the snapshot in force", async () => {
  const { members, rollout, clock } = world(2);
  const [first, second] = members;
  assert.ok(first && second);
  const old = Array.from({ length: MAX_UPSTREAMS }, (_, index) => ({ name: `old${index}` }));
  await rollout.apply({ ...A, ...declared(...old) });
  const publishing = Promise.withResolvers<readonly PublishEffect[]>();
  first.publishes = () => publishing.promise;
  const applied = rollout.apply(B);
  await clock.advance(12_000);
  await applied;
  await rollout.apply({ ...C, ...declared({ name: "new" }) });
  assert.deepEqual(second.columns, {}, "the first may still listen for them");
  publishing.resolve([]);
  await clock.advance(0);
  await rollout.apply({ ...C, version: 4, ...declared({ name: "new" }) });
  assert.equal(Object.keys(second.columns).length, 1);
});

test("Rollout.close() resolves pending apply() calls", async () => {
  const { members, rollout, logs } = world(1);
  members[0]?.holdsBack();
  const applied = rollout.apply(A);
  rollout.close();
  await applied;
  assert.deepEqual(logs()[0], ["prepare 1"]);
});

const TABLE_BASE = snapshotOf({ ca: createAuthority(), service: "web" });

function declaring(...ids: readonly string[]) {
  return { ...TABLE_BASE, upstreams: Object.fromEntries(ids.map((id) => [id, {} as never])) };
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

test("Rollout has one data path create plugins from files first, and the others only if it could", async () => {
  const { rollout, members, clock } = world(3);
  const [first, second, third] = members;
  assert.ok(first && second && third);
  await rollout.apply(A);
  const pluginCode = { a: { version: 2, text: "", path: "/a.ts", map: "", libraries: [] } };
  const hold = first.holdsBack();
  const applied = rollout.apply({ ...B, pluginCode });
  await clock.advance(0);
  assert.deepEqual([first, second].map(({ log }) => log.at(-1)), ["prepare 2", "publish 1"]);
  hold.answer(new Error("it loops"));
  await applied;
  assert.match(rollout.refused[0]?.reason ?? "", /it loops/);
  assert.deepEqual([second, third].map(({ log }) => log.at(-1)), ["publish 1", "publish 1"]);
  const gone = first.holdsBack();
  const again = rollout.apply({ ...C, pluginCode });
  await clock.advance(0);
  gone.answer(false);
  await again;
  assert.deepEqual([second, third].map(({ published }) => published?.version), [3, 3]);
  // The same plugins are not created again.
  const log = second.log.length;
  await rollout.apply({ ...C, version: 4, pluginCode });
  assert.deepEqual(second.log.slice(log), ["prepare 4", "publish 4"]);
});
