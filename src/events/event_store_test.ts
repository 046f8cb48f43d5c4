import assert from "node:assert/strict";
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { FakeClock } from "../../test/kit/clock/clock.ts";
import { recordingLog } from "../../test/kit/secrets/secret_peers.ts";
import type { NewEvent } from "../base/mod.ts";
import { createStateFiles } from "../source/mod.ts";
import { EventStore } from "./event_store.ts";
import { EventJournal } from "./journal.ts";

const EVENT: NewEvent = { kind: "chain", subject: "db", text: "splitter db: v2 10 % to 50 %" };

class Rig implements AsyncDisposable {
  readonly clock = new FakeClock({ startMs: Date.parse("2026-01-31T12:30:00Z") });
  readonly log = recordingLog();
  readonly directory: string;
  files = createStateFiles();

  constructor(directory: string) {
    this.directory = directory;
  }

  static async create(): Promise<Rig> {
    return new Rig(await mkdtemp(join(tmpdir(), "postern-events-")));
  }

  process(purpose = "web") {
    const { clock, log, directory, files } = this;
    const journal = new EventJournal({ clock, log });
    const store = new EventStore({ directory, name: "web-1", purpose, clock, log, journal, files });
    return { journal, store, texts: () => journal.events.map(({ text }) => text) };
  }

  async file(): Promise<string> {
    const [name, ...more] = await readdir(this.directory);
    assert.deepEqual(more, []);
    return join(this.directory, name ?? "");
  }

  warnings(): readonly string[] {
    return this.log.lines.filter(({ level }) => level === "warn")
      .map(({ message, fields }) => `${message}: ${fields["error"]}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.directory, { recursive: true, force: true });
  }
}

test("EventStore gives the events and the day's sums to the next process", async () => {
  await using rig = await Rig.create();
  const first = rig.process();
  assert.deepEqual(await first.store.load(), { text: "", isCrash: false });
  first.journal.report(EVENT);
  await first.store.close();
  const file = await rig.file();
  assert.match(file, /\/web-1-[0-9a-f]{12}\.events$/);
  assert.equal((await stat(file)).mode & 0o777, 0o600);

  await rig.clock.advance(3_600_000);
  const next = rig.process();
  next.journal.report({ ...EVENT, text: "before the file was read" });
  assert.deepEqual(await next.store.load(), {
    text: "; the earlier process ended at 2026-01-31T12:30:00.000Z",
    isCrash: false,
  });
  assert.deepEqual(next.texts(), [EVENT.text, "before the file was read"]);
  assert.deepEqual([next.journal.earlierSeq, next.journal.lastSeq], [1, 2]);
  assert.deepEqual(next.journal.day.shown(rig.clock.now()).kinds, [
    { kind: "chain", info: 2, warn: 0, error: 0 },
  ]);
  await next.store.close();
  await rig.clock.advance(25 * 3_600_000);
  const last = rig.process();
  await last.store.load();
  assert.equal(last.journal.events.length, 2);
  assert.deepEqual(last.journal.day.shown(rig.clock.now()).kinds, [], "a day is over");
});

test("EventStore writes some seconds after an event, and knows a process that crashed", async () => {
  await using rig = await Rig.create();
  const first = rig.process();
  await first.store.load();
  first.journal.report(EVENT);
  await rig.clock.advance(1_999);
  assert.deepEqual(await readdir(rig.directory), []);
  await rig.clock.advance(1);
  await first.store.flush();
  const next = rig.process();
  assert.deepEqual(await next.store.load(), {
    text:
      "; the earlier process did not end in order: it stored its last event at 2026-01-31T12:30:02.000Z",
    isCrash: true,
  });
});

test("EventStore writes nothing once the next process does", async () => {
  await using rig = await Rig.create();
  const first = rig.process();
  await first.store.load();
  first.journal.report(EVENT);
  await first.store.flush();
  first.store.leave();
  first.journal.report({ ...EVENT, text: "later" });
  await first.store.close();
  const next = rig.process();
  await next.store.load();
  assert.deepEqual(next.texts(), [EVENT.text]);
});

for (
  const [name, harm, want] of [
    ["is cut short", (text) => text.slice(0, 100), /damaged/],
    ["is empty", () => "", /damaged/],
    ["is a key", () => "-----BEGIN PRIVATE KEY-----", /damaged/],
    ["is of another version", (text) => text.replace('"format":1', '"format":2'), /damaged/],
    ["has an event without its text", (text) => text.replace('"text":', '"txt":'), /damaged/],
    ["has a number beyond all", (text) => text.replace('"seq":1', '"seq":1e300'), /damaged/],
    ["has a negative sum", (text) => text.replace("[1,0,0]", "[-1,0,0]"), /damaged/],
    ["has a half sum", (text) => text.replace("[1,0,0]", "[1,0.5,0]"), /damaged/],
    ["is another proxy's", (text) => text.replace('"purpose":"web"', '"purpose":"db"'), /another/],
    ["is of ten megabytes", (text) => text.padEnd(10_000_000), /more than 8388608 bytes/],
    ["is deeply nested", () => "[".repeat(100_000), /damaged/],
  ] as const satisfies readonly (readonly [string, (text: string) => string, RegExp])[]
) {
  test(`EventStore refuses a file that ${name}, and begins another`, async () => {
    await using rig = await Rig.create();
    const first = rig.process();
    await first.store.load();
    first.journal.report(EVENT);
    await first.store.close();
    const file = await rig.file();
    await writeFile(file, harm(await readFile(file, "utf8")));
    const next = rig.process();
    assert.deepEqual(await next.store.load(), { text: "", isCrash: false });
    assert.deepEqual(next.texts(), []);
    const [warning = "", ...more] = rig.warnings();
    assert.match(warning, /^stored events not used, others begin: /);
    assert.match(warning, want);
    assert.doesNotMatch(warning, /PRIVATE|splitter/);
    assert.deepEqual(more, []);
    next.journal.report({ ...EVENT, text: "new" });
    await next.store.close();
    const last = rig.process();
    await last.store.load();
    assert.deepEqual(last.texts(), ["new"]);
  });
}

test("EventStore leaves out events of kinds that a later version has", async () => {
  await using rig = await Rig.create();
  const first = rig.process();
  await first.store.load();
  first.journal.report(EVENT);
  first.journal.report({ ...EVENT, kind: "endpoint", text: "db-1 added" });
  await first.store.close();
  const file = await rig.file();
  const text = await readFile(file, "utf8");
  await writeFile(file, text.replaceAll('"chain"', '"__proto__"'));
  const next = rig.process();
  await next.store.load();
  assert.deepEqual(next.texts(), ["db-1 added"]);
});

test("EventStore logs a directory that it cannot write once, and that it can again", async () => {
  await using rig = await Rig.create();
  const { store, journal } = rig.process();
  await store.load();
  await chmod(rig.directory, 0o777);
  for (let at = 0; at < 20; at++) {
    journal.report(EVENT);
    await rig.clock.advance(5_000);
    await store.flush();
  }
  assert.equal(journal.events.length, 20);
  assert.match(rig.warnings().join("\n"), /^events not stored: .*can be written by others[^\n]*$/);
  await chmod(rig.directory, 0o700);
  journal.report(EVENT);
  await store.flush();
  assert.ok(rig.log.lines.some(({ message }) => message === "events stored again"));
});

test("EventStore writes a full journal of the longest texts within its own limit", async () => {
  await using rig = await Rig.create();
  const { store, journal } = rig.process();
  await store.load();
  const long = "\u{1f511}".repeat(2_000);
  for (let at = 0; at < 1_100; at++) {
    journal.report({ kind: "endpoint", subject: `${at}${long}`, text: long, effect: long });
    await rig.clock.advance(1_000);
  }
  await store.close();
  const next = rig.process();
  assert.equal((await next.store.load()).isCrash, false);
  assert.equal(next.journal.events.length, 1_000);
});
