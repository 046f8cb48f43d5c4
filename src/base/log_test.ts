import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../test/kit/clock/clock.ts";
import {
  createLog,
  escapeUnseen,
  formatJson,
  formatText,
  LOG_LEVELS,
  type LogLevel,
  type LogRecord,
  maskUserinfo,
  printable,
} from "./log.ts";

const TIME = Date.UTC(2026, 10, 21, 7, 30);

function record(fields: Record<string, unknown>, message = "hello"): LogRecord {
  return { timeMs: TIME, level: "info", message, fields };
}

const HEAD = "2026-11-21T07:30:00.000Z [INFO]  hello";

for (
  const [name, fields, want] of [
    ["no fields", {}, ""],
    ["plain values", { a: "b", n: 1, yes: true, none: null }, " a=b n=1 yes=true none=null"],
    ["nothing for undefined", { a: undefined, b: 1 }, " b=1"],
    ["quotes around spaces", { a: "b c" }, ' a="b c"'],
    ["quotes around nothing", { a: "" }, ' a=""'],
    ["an equals sign quoted", { a: "b=c" }, ' a="b=c"'],
    ["quotes escaped", { a: 'b"c' }, ' a="b\\"c"'],
    ["lists and objects as JSON", { a: [1, "x"], b: { c: 1 } }, ' a="[1,\\"x\\"]" b="{\\"c\\":1}"'],
    ["a forged line quoted", { a: "x\n2026 [ERROR] forged" }, ' a="x\\n2026 [ERROR] forged"'],
    ["a carriage return quoted", { a: "x\rforged" }, ' a="x\\rforged"'],
    [
      "a terminal's escapes quoted",
      { a: "\x1b[2Jx\x7f\x9b2J" },
      ' a="\\u001b[2Jx\\u007f\\u009b2J"',
    ],
    [
      "direction marks quoted",
      { a: "x\u202etxt.exe\u2066", b: "\u200f" },
      ' a="x\\u202etxt.exe\\u2066" b="\\u200f"',
    ],
    [
      "no user and password of an address",
      { error: new Error("no http://u:p@h") },
      ' error="no http://(not shown)@h"',
    ],
    ["Unicode's line ends quoted", { a: "x\u2028y\u0085z" }, ' a="x\\u2028y\\u0085z"'],
    ["a big integer", { a: 2n ** 64n }, " a=18446744073709551616"],
    ["the message of an error", { error: new Error("it broke") }, ' error="it broke"'],
    ["addresses bare", { a: "[::1]:80", b: "spiffe://td/ns/x" }, " a=[::1]:80 b=spiffe://td/ns/x"],
  ] as [string, Record<string, unknown>, string][]
) {
  test(`formatText() writes ${name}`, () => {
    assert.equal(formatText(record(fields)), HEAD + want);
  });
}

test("formatText() writes one line for any message", () => {
  const line = formatText(record({}, "a\nb\r\x1b[1mc\u2028d"));
  assert.match(line, /\[INFO\] {2}a b \\u001b\[1mc\\u2028d$/);
});

test("formatText() aligns messages of all levels", () => {
  const starts = LOG_LEVELS.map((level) => formatText({ ...record({}), level }).indexOf("hello"));
  assert.equal(new Set(starts).size, 1);
});

test("formatText() and formatJson() never throw for any field", () => {
  const loop: Record<string, unknown> = {};
  loop["self"] = loop;
  const hostile = {
    loop,
    toJson: { toJSON: () => assert.fail("thrown by a field") },
    symbol: Symbol("x"),
    fn: () => 1,
    big: [1n],
  };
  assert.equal(formatText(record(hostile)).split("\n").length, 1);
  assert.equal(JSON.parse(formatJson(record(hostile))).message, "hello");
});

test("formatJson() writes time, level and message first, then fields", () => {
  assert.equal(
    formatJson(record({ a: "x\ny", n: 1, none: undefined })),
    '{"time":"2026-11-21T07:30:00.000Z","level":"info","message":"hello","a":"x\\ny","n":1}',
  );
});

test("formatJson() does not let a field replace time, level or message", () => {
  const line = JSON.parse(formatJson(record({ level: "error", message: "forged", time: "never" })));
  assert.deepEqual(line, { time: "2026-11-21T07:30:00.000Z", level: "info", message: "hello" });
});

test("formatJson() escapes unseen characters and masks user information", () => {
  const line = formatJson(
    record({ "k\u009b": "\u202e", list: ["http://u:p@h"] }, "at u:p@h\u2028"),
  );
  assert.doesNotMatch(line, /[\u0080-\u2069]|u:p/);
  const { time: _, level: _level, ...rest } = JSON.parse(line);
  assert.deepEqual(rest, {
    message: "at (not shown)@h\u2028",
    "k\u009b": "\u202e",
    list: ["http://(not shown)@h"],
  });
});

test("formatJson() writes the message of an error", () => {
  assert.equal(JSON.parse(formatJson(record({ error: new Error("it broke") }))).error, "it broke");
});

test("createLog() writes from its level on, and follows when the level changes", () => {
  const records: LogRecord[] = [];
  const holder: { level: LogLevel } = { level: "warn" };
  const clock = new FakeClock({ startMs: TIME });
  const log = createLog({ clock, holder, write: (each) => records.push(each) });
  const child = log.with({ upstream: "db" });
  for (const level of LOG_LEVELS) log[level](level);
  assert.deepEqual(records.map(({ level }) => level), ["warn", "error"]);
  assert.deepEqual(LOG_LEVELS.map((level) => log.enabled(level)), [
    false,
    false,
    false,
    true,
    true,
  ]);
  holder.level = "trace";
  child.trace("deep", { n: 1 });
  assert.deepEqual(records.at(-1), {
    timeMs: TIME,
    level: "trace",
    message: "deep",
    fields: { upstream: "db", n: 1 },
  });
});

test("createLog() prefers a line's field to the log's", () => {
  const records: LogRecord[] = [];
  const log = createLog({
    clock: new FakeClock(),
    holder: { level: "info" },
    write: (each) => records.push(each),
  }, { a: 1, b: 1 });
  log.with({ b: 2 }).info("x", { b: 3 });
  assert.deepEqual(records[0]?.fields, { a: 1, b: 3 });
});

for (
  const [text, want] of [
    ["http://user:password@127.0.0.1:8500", "http://(not shown)@127.0.0.1:8500"],
    ['"https://user@host/x": no', '"https://(not shown)@host/x": no'],
    ["at http://a:p@ss/w?o#r'd\"@host: refused", "at http://(not shown)@host: refused"],
    ["user:password@host:8500", "(not shown)@host:8500"],
    ["addr=user:p/w@[::1]:80 b", "addr=(not shown)@[::1]:80 b"],
    ["http://a:b@c and http://d:e@f", "http://(not shown)@c and http://(not shown)@f"],
    ["http://(not shown)@host", "http://(not shown)@host"],
    ["mail ops@example.com", "mail ops@example.com"],
    ["spiffe://td/ns/x 10:30 a@b", "spiffe://td/ns/x 10:30 a@b"],
  ] as const
) {
  test(`maskUserinfo() of ${text}`, () => assert.equal(maskUserinfo(text), want));
}

test("escapeUnseen() leaves letters of every script, tabs and line feeds", () => {
  const text = "Grüße שלום 你好 👋\t\n";
  assert.equal(escapeUnseen(text), text);
});

test("escapeUnseen() escapes terminal controls and direction marks", () => {
  for (
    const [from, to] of [
      [0x00, 0x08],
      [0x0b, 0x1f],
      [0x7f, 0x9f],
      [0x61c, 0x61c],
      [0x200e, 0x200f],
      [0x2028, 0x202e],
      [0x2066, 0x2069],
    ] as const
  ) {
    for (let code = from; code <= to; code++) {
      const char = String.fromCharCode(code);
      assert.equal(escapeUnseen(`a${char}b`), `a\\u${code.toString(16).padStart(4, "0")}b`);
    }
  }
});

test("escapeUnseen() of JSON text is the same JSON", () => {
  const value = { "a\u202e": ["\u009b2J", "x\u2028y", "\u2066"] };
  const text = escapeUnseen(JSON.stringify(value, null, 2));
  assert.deepEqual(JSON.parse(text), value);
  assert.doesNotMatch(text, /[\u0080-\u2069]/);
});

for (const part of ["://", "=a:", "a://b:", '"x:']) {
  test(`maskUserinfo() takes linear time for many ${part}`, () => {
    const text = `@${part.repeat(30_000)}`;
    const started = performance.now();
    assert.equal(maskUserinfo(text), text);
    assert.ok(performance.now() - started < 2_000);
  });
}

test("printable() masks user information and escapes unseen characters", () => {
  assert.equal(printable("\x1b[2Jhttp://a:b@c"), "\\u001b[2Jhttp://(not shown)@c");
});
