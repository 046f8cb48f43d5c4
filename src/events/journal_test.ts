import { strict as assert } from "node:assert";
import { test } from "node:test";
import { FakeClock } from "../../test/kit/clock/clock.ts";
import { createLog, type LogRecord, type NewEvent } from "../base/mod.ts";
import { EventJournal, EVENTS_LIMIT } from "./journal.ts";

function rig() {
  const clock = new FakeClock();
  const lines: LogRecord[] = [];
  const log = createLog({ clock, write: (line) => lines.push(line), holder: { level: "info" } });
  return { clock, lines, journal: new EventJournal({ clock, log }) };
}

const EVENT: NewEvent = { kind: "chain", subject: "db", text: "splitter db: v2 10 % to 50 %" };

test("EventJournal writes one line for each event that has none", () => {
  const { journal, lines } = rig();
  journal.report({ ...EVENT, effect: "3 open connections ended" });
  journal.report({ kind: "secret", subject: "web.pem", text: "rotated", isLogged: true });
  assert.deepEqual(lines.map(({ level, message, fields }) => [level, message, fields]), [[
    "info",
    "route changed",
    {
      subject: "db",
      change: "splitter db: v2 10 % to 50 %",
      effect: "3 open connections ended",
    },
  ]]);
  assert.deepEqual(journal.events.map(({ seq, severity }) => [seq, severity]), [
    [1, "info"],
    [2, "info"],
  ]);
});

test("EventJournal keeps the last thousand, and continues the numbers of an earlier run", async () => {
  const { journal, clock } = rig();
  for (let count = 0; count < EVENTS_LIMIT + 10; count++) {
    journal.report(EVENT);
    await clock.advance(1_000);
  }
  assert.equal(journal.events.length, EVENTS_LIMIT);
  assert.deepEqual([journal.events[0]?.seq, journal.lastSeq], [11, EVENTS_LIMIT + 10]);
  const { journal: next } = rig();
  next.report(EVENT);
  next.restore({ events: journal.events, day: journal.day.stored(clock.now()) });
  next.report(EVENT);
  assert.deepEqual([next.events.length, next.lastSeq], [EVENTS_LIMIT, EVENTS_LIMIT + 12]);
  assert.equal(next.earlierSeq, EVENTS_LIMIT + 10);
  const [first] = next.events;
  assert.equal(first?.seq, 13);
});

test("EventJournal sums up a burst of one kind, with the worst severity, and not the other kinds", async () => {
  const { journal, clock, lines } = rig();
  for (let count = 0; count < 10_000; count++) {
    const severity = count === 5_000 ? "error" : "info";
    journal.report({ kind: "endpoint", subject: "db", text: `db-${count} added`, severity });
  }
  journal.report(EVENT);
  assert.equal(journal.events.length, 51);
  await clock.advance(5_000);
  const last = journal.events.at(-1);
  assert.equal(last?.text, "9950 more events of this kind within 5 s");
  assert.deepEqual([last?.kind, last?.severity], ["endpoint", "error"]);
  assert.equal(lines.length, 52);
  journal.report({ kind: "endpoint", subject: "db", text: "db-1 removed" });
  assert.equal(journal.events.at(-1)?.text, "db-1 removed");
});

test("EventJournal cuts texts that a peer has made long", () => {
  const { journal } = rig();
  const long = "x".repeat(100_000);
  journal.report({ kind: "endpoint", subject: long, text: long, effect: long });
  assert.ok(JSON.stringify(journal.events).length < 2_000);
});

test("EventJournal calls followers until they leave", () => {
  const { journal } = rig();
  let calls = 0;
  const leave = journal.follow(() => calls++);
  journal.report(EVENT);
  leave();
  journal.report(EVENT);
  assert.equal(calls, 1);
});
