import test from "node:test";
import assert from "node:assert/strict";
import { createLog, type ErrorCode, type LogRecord, severityOf } from "../../base/mod.ts";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { ConnectionRecord } from "./connection_record.ts";
import { FailureSummary } from "./failure_summary.ts";

function setUp() {
  const clock = new FakeClock();
  const lines: LogRecord[] = [];
  const log = createLog({ clock, holder: { level: "info" }, write: (line) => lines.push(line) });
  const sums = new FailureSummary({ clock, log });
  /** How many of them are logged in full. */
  const fail = (code: ErrorCode, count: number, from = "10.0.0.1", listener = "inbound") => {
    const level = severityOf(code);
    let logged = 0;
    for (let port = 1; port <= count; port++) {
      const record = new ConnectionRecord(
        { direction: "inbound", name: listener, destination: "", http: null },
        `${from}:${port}`,
        0,
      );
      if (sums.isTold(record, { code, reason: "no room" }, level)) logged++;
    }
    return logged;
  };
  return { clock, lines, sums, fail };
}

test("RefusalSums logs the first of a second in full and counts the others in one line", async () => {
  const { clock, lines, fail } = setUp();
  assert.equal(fail("overloaded", 500), 1);
  assert.equal(fail("overloaded", 3, "10.0.0.2"), 0);
  assert.deepEqual(lines, []);
  await clock.advance(1_000);
  assert.equal(lines.length, 1);
  const [line] = lines;
  assert.ok(line);
  const { level, message, fields } = line;
  assert.equal(level, "warn");
  assert.equal(message, "more connections failed");
  assert.deepEqual(fields, {
    direction: "inbound",
    listener: "inbound",
    code: "overloaded",
    count: 502,
    sources: 2,
    stage: "accept",
    source: "10.0.0.1:2",
    remote: "10.0.0.1:2",
    reason: "no room",
    rule: undefined,
  });
  assert.equal(fail("overloaded", 1), 1, "a new second");
  await clock.advance(1_000);
  assert.equal(lines.length, 1, "nothing to add");
  assert.equal(clock.pending, 0);
});

test("RefusalSums distinguishes up to a thousand addresses, and counts all failures", async () => {
  const { clock, lines, fail } = setUp();
  for (let index = 0; index < 1_002; index++) {
    fail("overloaded", 1, `10.0.${index >> 8}.${index & 255}`);
  }
  await clock.advance(1_000);
  assert.deepEqual([lines[0]?.fields.count, lines[0]?.fields.sources], [1_001, 1_000]);
});

test("RefusalSums keeps listeners and codes apart", () => {
  const { fail } = setUp();
  assert.equal(fail("overloaded", 2), 1);
  assert.equal(fail("overloaded", 2, "10.0.0.1", "db"), 1);
  assert.equal(fail("handshake_failed", 2), 1);
});

test("RefusalSums logs each verified caller in full, up to a limit", () => {
  const { fail } = setUp();
  assert.equal(fail("intention_denied", 1_500), 1_000);
});

test("RefusalSums.flush() logs the pending counts once", async () => {
  const { clock, lines, sums, fail } = setUp();
  fail("overloaded", 3);
  sums.flush();
  assert.equal(lines[0]?.fields.count, 2);
  await clock.advance(1_000);
  assert.equal(lines.length, 1);
});
