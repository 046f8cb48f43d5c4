import { strict as assert } from "node:assert";
import { test } from "node:test";
import { screenOf, tableLines, tint, wrapped } from "./terminal.ts";

for (
  const [name, noColor, stream, env, want] of [
    ["a pipe is plain and endless", false, {}, {}, { width: undefined, color: false }],
    ["a terminal has colours", false, { isTTY: true, columns: 100 }, {}, {
      width: 100,
      color: true,
    }],
    ["-no-color", true, { isTTY: true, columns: 100 }, {}, { width: 100, color: false }],
    ["NO_COLOR", false, { isTTY: true }, { NO_COLOR: "1" }, { width: 80, color: false }],
    ["an empty NO_COLOR", false, { isTTY: true }, { NO_COLOR: "" }, { width: 80, color: true }],
    ["a dumb terminal", false, { isTTY: true }, { TERM: "dumb" }, { width: 80, color: false }],
  ] as const
) {
  test(`screenOf() ${name}`, () => assert.deepEqual(screenOf({ noColor }, stream, env), want));
}

const COLUMNS = [{ title: "NAME", shrinksTo: 6 }, { title: "N", align: "right" }] as const;

test("tableLines() aligns, colours, and cuts what is too wide for the terminal", () => {
  const rows = [["a-long-name", "7"], ["b", tint("12", "bad")]];
  assert.deepEqual(tableLines(COLUMNS, rows, { width: undefined, color: false }), [
    "NAME          N",
    "a-long-name   7",
    "b            12",
  ]);
  assert.deepEqual(tableLines(COLUMNS, rows, { width: 12, color: true }), [
    "\x1b[1mNAME\x1b[0m       \x1b[1mN\x1b[0m",
    "a-long-…   7",
    "b         \x1b[31m12\x1b[0m",
  ]);
});

test("tableLines() and wrapped() pass no control characters on to the terminal", () => {
  const screen = { width: 80, color: true };
  for (const line of tableLines(COLUMNS, [["a\x1b[2J", "1"]], screen).slice(1)) {
    assert.ok(!line.includes("\x1b[2J"));
  }
  assert.deepEqual(wrapped("one two \x07 three", "  ", { width: 20, color: false }), [
    "  one two \\u0007 three",
  ]);
});

test("wrapped() breaks at spaces, and words that are longer than a line", () => {
  assert.deepEqual(wrapped(`ab ${"x".repeat(25)} c`, "  ", { width: 22, color: false }), [
    "  ab",
    `  ${"x".repeat(20)}`,
    "  xxxxx c",
  ]);
});
