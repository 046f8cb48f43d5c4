import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { CA, MemoryStateStore } from "../../../test/kit/consul/snapshot_source.ts";
import { snapshotOf } from "../../../test/kit/engine/snapshots.ts";
import { recordingLog } from "../../../test/kit/secrets/secret_peers.ts";
import { Stats } from "../../base/mod.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import { NO_PLANS } from "../parts/credential_plans.ts";
import { type FactsReader, type MadeSnapshot, type ReaderEvents, waiting } from "./facts_reader.ts";
import type { Failing } from "./source.ts";
import { SourceShell } from "./source_shell.ts";

const FIRST = snapshotOf({ ca: CA, service: "web" });
const NOW_MS = FIRST.credentials.notBeforeMs;
const SECOND: Snapshot = { ...FIRST, version: 2 };

function ready(snapshot: Snapshot, more: Partial<MadeSnapshot> = {}): MadeSnapshot {
  return { ...waiting([], []), outcome: { kind: "ready", snapshot }, ...more };
}

class ScriptedReader implements FactsReader {
  readonly called = "server";
  readonly firstPart = "configuration";
  readonly warnings = [];
  readonly restoring = {
    proxyId: "web",
    graceMs: 5_000,
    isAway: ({ code }: Failing) => code === "agent_unreachable",
    isRefused: ({ code }: Failing) => code === "agent_forbidden",
    plan: () => NO_PLANS,
  };
  failing: readonly Failing[] = [];
  made: MadeSnapshot = waiting(["configuration"], []);
  makes = 0;
  events: ReaderEvents | undefined;

  start(events: ReaderEvents): void {
    this.events = events;
  }

  make(): MadeSnapshot {
    this.makes++;
    return this.made;
  }

  fail(code: Failing["code"]): void {
    const failing = { watch: "configuration", code, message: "refused", sinceMs: NOW_MS };
    this.failing = [failing];
    this.events?.failing(failing);
  }

  status() {
    return { kind: "file", watches: [] } as const;
  }

  reload(): Promise<boolean> {
    return Promise.resolve(true);
  }

  close(): void {}
}

class Rig {
  readonly clock = new FakeClock({ startMs: NOW_MS });
  readonly log = recordingLog();
  readonly reader = new ScriptedReader();
  readonly snapshots: Snapshot[] = [];
  readonly events: string[] = [];
  readonly source: SourceShell;

  constructor(store?: MemoryStateStore) {
    this.source = new SourceShell({
      clock: this.clock,
      log: this.log,
      stats: new Stats(),
      report: ({ text }) => void this.events.push(text),
      createSecretStore: () => assert.fail("no secrets are configured"),
      ...(store && { store }),
    }, this.reader);
    this.source.start((snapshot) => {
      this.snapshots.push(snapshot);
      return Promise.resolve(snapshot);
    });
  }

  async makes(made: MadeSnapshot): Promise<void> {
    this.reader.made = made;
    this.reader.events?.changed();
    await this.clock.advance(20);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.source.close();
  }
}

test("SourceShell joins changes that come together, and publishes only changed snapshots", async () => {
  await using rig = new Rig();
  assert.deepEqual(rig.source.status().waitingFor, ["configuration"]);
  rig.reader.events?.changed();
  rig.reader.events?.changed();
  await rig.makes(ready(FIRST));
  assert.equal(rig.reader.makes, 1);
  await rig.makes(ready(FIRST));
  assert.deepEqual([rig.reader.makes, rig.snapshots], [2, [FIRST]]);
  await rig.makes(ready(SECOND));
  assert.deepEqual(rig.snapshots, [FIRST, SECOND]);
  assert.deepEqual(rig.source.status().waitingFor, []);
});

test("SourceShell makes a snapshot again when it is due, and not after close()", async () => {
  const rig = new Rig();
  await rig.makes(ready(FIRST, { dueMs: rig.clock.monotonic() + 1_000 }));
  rig.reader.made = ready(SECOND, { dueMs: rig.clock.monotonic() + 2_000 });
  await rig.clock.advance(1_000);
  assert.deepEqual(rig.snapshots, [FIRST, SECOND]);
  await rig.source.close();
  await rig.clock.advance(10_000);
  assert.equal(rig.reader.makes, 2);
});

test("SourceShell serves the stored snapshot of a reader that is away, until its facts are confirmed", async () => {
  const store = new MemoryStateStore({ snapshot: FIRST });
  await using rig = new Rig(store);
  rig.reader.fail("agent_unreachable");
  await rig.clock.advance(20);
  assert.deepEqual([rig.snapshots, rig.source.status().restored], [[FIRST], true]);
  assert.equal(store.saves, 0);
  await rig.makes(ready(SECOND, { credentials: null }));
  assert.equal(rig.source.status().restored, true, "served, and not confirmed yet");
  await rig.makes(ready(SECOND, { credentials: null, isConfirmed: true }));
  assert.equal(rig.source.status().restored, false);
  assert.deepEqual([rig.snapshots.length, store.saved?.snapshot], [2, SECOND]);
});

test("SourceShell does not serve the stored snapshot of a reader that is refused", async () => {
  await using rig = new Rig(new MemoryStateStore({ snapshot: FIRST }));
  rig.reader.fail("agent_forbidden");
  await rig.clock.advance(20_000);
  assert.deepEqual(rig.snapshots, []);
});

test("SourceShell reports what is refused, each reason once, and when it is not refused any more", async () => {
  await using rig = new Rig();
  const refused = (...reasons: string[]) =>
    rig.makes(ready(FIRST, { refused: reasons.map((reason) => ({ what: "db", reason })) }));
  await refused("bad regex");
  await refused("bad regex");
  await refused("bad regex", "no name");
  await rig.clock.advance(3_600_000);
  await refused();
  await refused();
  const [first, second, over = "", ...more] = rig.events;
  assert.deepEqual([first, second, more], [
    "configuration refused: db: bad regex",
    "configuration refused: db: no name",
    [],
  ]);
  assert.match(over, /^configuration of db not refused any more; it was since 20\d\d-/);
});
