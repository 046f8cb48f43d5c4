import assert from "node:assert/strict";
import { closeSync, fstatSync, openSync } from "node:fs";
import { test } from "node:test";
import { formatText, ProxyError } from "../../base/mod.ts";
import { exitCodeOf, isJournal, lastWords, LogDrain, wantsJson } from "./log_output.ts";
import { LogRings } from "./log_rings.ts";

const TIME = Date.UTC(2026, 10, 21, 7, 30);
const LOST = (lines: number, reason: string) =>
  `2026-11-21T07:30:00.000Z [WARN]  log lines lost lines=${lines} reason="${reason}"\n`;
const TOO_SLOW = "standard error was not read in time";

class Rig {
  readonly rings: LogRings;
  readonly writes: string[] = [];
  /** Errors of the next writes, one each; a number: that many bytes are taken. */
  readonly faults: (string | number)[] = [];
  readonly drain: LogDrain;

  constructor(threads = 1) {
    this.rings = LogRings.create(threads);
    this.drain = new LogDrain({
      rings: this.rings,
      format: formatText,
      now: () => TIME,
      write: (bytes) => this.#write(bytes),
    });
  }

  put(text: string, thread = 0): void {
    this.rings.each[thread]?.put(new TextEncoder().encode(text));
  }

  get text(): string {
    return this.writes.join("");
  }

  #write(bytes: Uint8Array): number {
    const fault = this.faults.shift();
    if (typeof fault === "string") throw Object.assign(new Error(fault), { code: fault });
    const taken = bytes.subarray(0, fault ?? bytes.length);
    this.writes.push(new TextDecoder().decode(taken));
    return taken.length;
  }
}

test("LogDrain writes whole lines in pieces that a pipe takes in one", () => {
  const rig = new Rig();
  const lines = Array.from({ length: 100 }, (_, i) => `${i} ${"x".repeat(i * 7 % 200)}\n`);
  for (const line of lines) rig.put(line);
  rig.drain.run();
  assert.equal(rig.text, lines.join(""));
  assert.ok(rig.writes.length > 1);
  for (const piece of rig.writes) assert.ok(piece.length <= 4_096 && piece.endsWith("\n"));
});

test("LogDrain writes a line that is longer than a piece", () => {
  const rig = new Rig();
  const long = `${"é".repeat(9_000)}\n`;
  rig.put("first\n");
  rig.put(long);
  const writes: Uint8Array[] = [];
  new LogDrain({
    rings: rig.rings,
    format: formatText,
    now: () => TIME,
    write: (bytes) => writes.push(bytes.slice()) && bytes.length,
  }).run();
  assert.equal(Buffer.concat(writes).toString(), `first\n${long}`);
});

test("LogDrain writes the lines of every thread, the main thread's last", () => {
  const rig = new Rig(3);
  rig.put("stopped\n", 2);
  rig.put("one\n", 0);
  rig.put("two\n", 1);
  rig.drain.run();
  assert.equal(rig.text, "one\ntwo\nstopped\n");
});

test("LogRings keep bytes and their order when offsets wrap around repeatedly", () => {
  const rig = new Rig();
  let want = "";
  for (let i = 0; i < 40; i++) {
    const line = `${i} ${"x".repeat(30_011)}\n`;
    rig.put(line);
    want += line;
    if (i % 5 === 4) rig.drain.run();
  }
  assert.equal(rig.text, want);
  assert.equal(rig.rings.lost, 0);
});

test("LogDrain reports the number of lines without room, after the lines that had room", () => {
  const rig = new Rig();
  const line = `${"x".repeat(1_023)}\n`;
  for (let i = 0; i < 300; i++) rig.put(line);
  assert.equal(rig.rings.lost, 44);
  rig.drain.run();
  const report = LOST(44, TOO_SLOW);
  assert.ok(rig.text.startsWith(line.repeat(256)));
  assert.equal(rig.text.slice(256 * line.length), report);
  rig.put("after\n");
  rig.drain.run();
  assert.equal(rig.text.slice(256 * line.length), `${report}after\n`);
});

test("LogDrain stops when nothing is taken, and goes on in the middle of a line", () => {
  const rig = new Rig(2);
  rig.put("some words\n");
  rig.put("more\n", 1);
  rig.faults.push(4, "EAGAIN", "EAGAIN", "EAGAIN");
  for (const [done, text] of [[false, "some"], [false, "some"], [true, "some words\nmore\n"]]) {
    assert.equal(rig.drain.run(), done);
    assert.equal(rig.text, text);
  }
  assert.equal(rig.rings.lost, 0);
});

test("LogDrain writes the rest of a loss report that was taken in part", () => {
  const rig = new Rig();
  rig.put("one\n");
  rig.rings.own.lose(7);
  rig.faults.push(4, 10, "EAGAIN", "EAGAIN");
  assert.equal(rig.drain.run(), false);
  assert.equal(rig.drain.run(), true);
  assert.equal(rig.text, `one\n${LOST(7, TOO_SLOW)}`);
});

for (const fault of ["ENOSPC", "EPIPE", "EIO"]) {
  test(`LogDrain counts lines that could not be written (${fault}) and reports them once it can`, () => {
    const rig = new Rig();
    rig.put("one\ntwo\n");
    // The report of the loss cannot be written at first, either.
    rig.faults.push(fault, fault);
    rig.drain.run();
    assert.equal(rig.text, "");
    assert.equal(rig.rings.lost, 2);
    rig.put("three\n");
    rig.drain.run();
    assert.equal(rig.text, `three\n${LOST(2, fault).replaceAll('"', "")}`);
  });
}

for (
  const [words, want] of [
    ["proxy -sidecar-for web", false],
    ["proxy -log-json", true],
    ["proxy -bad --log-json=true", true],
    ["proxy -log-json=false", false],
    ["proxy -log-json -log-json=0", false],
    ["proxy -log-jsonx", false],
  ] as const
) {
  test(`wantsJson() of ${words}`, () => assert.equal(wantsJson(words.split(" ")), want));
}

test("lastWords() is a log line in JSON with -log-json, else text", () => {
  const error = new ProxyError("listen_failed", "Cannot listen\nat http://u:p@h\u202e");
  const nowMs = Date.UTC(2026, 10, 21, 7, 30);
  assert.equal(
    lastWords(error, { json: false, nowMs }),
    "postern: Cannot listen\nat http://(not shown)@h\\u202e",
  );
  assert.deepEqual(JSON.parse(lastWords(error, { json: true, nowMs })), {
    time: "2026-11-21T07:30:00.000Z",
    level: "error",
    message: "Cannot listen\nat http://(not shown)@h\u202e",
    code: "listen_failed",
  });
  assert.equal(JSON.parse(lastWords("odd", { json: true, nowMs })).message, "odd");
});

test("exitCodeOf() is 2 for usage and configuration, else 1", () => {
  assert.equal(exitCodeOf(new ProxyError("usage", "x")), 2);
  assert.equal(exitCodeOf(new ProxyError("config_invalid", "x")), 2);
  assert.equal(exitCodeOf(new ProxyError("listen_failed", "x")), 1);
  assert.equal(exitCodeOf(new Error("x")), 1);
});

test("isJournal() compares the variable of systemd with the descriptor", () => {
  const fd = openSync("/dev/null", "w");
  const { dev, ino } = fstatSync(fd);
  assert.equal(isJournal({ JOURNAL_STREAM: `${dev}:${ino}` }, fd), true);
  // The variable of a parent whose child writes elsewhere.
  assert.equal(isJournal({ JOURNAL_STREAM: `${dev}:${ino + 1}` }, fd), false);
  assert.equal(isJournal({}, fd), false);
  closeSync(fd);
  assert.equal(isJournal({ JOURNAL_STREAM: `${dev}:${ino}` }, fd), false);
});
