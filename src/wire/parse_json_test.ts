import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";
import { locateJsonError, parseJson, readJson } from "./parse_json.ts";

for (
  const [what, text, fault] of [
    ["a list", "[1, 2]", undefined],
    [
      "strings of brackets",
      JSON.stringify(["[".repeat(100), '\\"[{'.repeat(100), "\\"]),
      undefined,
    ],
    ["the deepest allowed nesting", "[".repeat(64) + "]".repeat(64), undefined],
    ["one deeper", "[".repeat(65) + "]".repeat(65), /nested too deeply/],
    [
      "objects nested one level deeper",
      `${'{"a":'.repeat(65)}1${"}".repeat(65)}`,
      /nested too deeply/,
    ],
    ["no end", "[".repeat(1_000_000), /nested too deeply/],
    ["a bracket after a string with escapes", `["\\\\",${"[".repeat(64)}`, /nested too deeply/],
    ["many small lists", `[${"[],".repeat(10_000)}[]]`, /too many lists/],
    ["many small objects", `[${"{},".repeat(10_000)}{}]`, /too many lists/],
    ["as many as Consul sends", JSON.stringify(new Array(20_000).fill({ Name: "a" })), undefined],
    ["an unclosed string", '["', /./],
    ["no JSON", "[}", /./],
  ] as const
) {
  test(`parseJson() of ${what}`, () => {
    if (fault) assert.throws(() => parseJson(text), fault);
    else assert.deepEqual(parseJson(text), JSON.parse(text));
  });
}

test("parseJson() takes linear time", () => {
  const since = performance.now();
  for (const part of ["\\", '\\"', '"', '""']) {
    assert.throws(() => parseJson(`["${part.repeat(500_000)}`));
  }
  assert.ok(performance.now() - since < 2_000);
});

for (
  const [name, text, line, column, reason] of [
    ["nothing", "", 1, 1, /expected a value/],
    ["an open object", '{\n  "a": 1', 2, 9, /expected "," or "}"/],
    ["a surplus comma", '{"a": 1,}', 1, 9, /expected a key/],
    ["a surplus comma in a list", "[1,]", 1, 4, /expected a value/],
    ["a comment", "// x\n{}", 1, 1, /expected a value/],
    ["single quotes", "{'a': 1}", 1, 2, /expected a key/],
    ["more than one value", "{} {}", 1, 4, /expected the end/],
    ["a line break in a string", '["a\nb"]', 1, 4, /string is not valid/],
    ["a bad escape", '["a\\x"]', 1, 5, /string is not valid/],
    ["a leading zero", "[01]", 1, 3, /expected "," or "]"/],
    ["a missing colon", '{"a" 1}', 1, 6, /expected ":"/],
    ["deep nesting", "[".repeat(100_000), 1, 34, /nested more than 32/],
  ] as const
) {
  test(`readJson() reports the place of ${name}`, () => {
    const json = readJson(text);
    assert.ok(json.kind === "invalid");
    assert.match(json.reason, reason);
    assert.deepEqual(json.place, { line, column });
  });
}

test("readJson() has the place of every member and of missing ones", () => {
  const json = readJson('{\n  "a": [\n    {"b": 1}\n  ]\n}');
  assert.ok(json.kind === "valid");
  assert.deepEqual(json.value, { a: [{ b: 1 }] });
  assert.deepEqual(json.placeOf(["a"]), { line: 2, column: 3 });
  assert.deepEqual(json.placeOf(["a", 0, "b"]), { line: 3, column: 6 });
  assert.deepEqual(json.placeOf(["a", 0, "missing"]), { line: 3, column: 5 });
  assert.deepEqual(json.placeOf([]), { line: 1, column: 1 });
});

test("readJson() reports duplicate keys", () => {
  const json = readJson('{"a": {"b": 1, "b": 2}, "\\u0061": 3}');
  assert.ok(json.kind === "valid");
  assert.deepEqual(json.duplicates, [{ path: ["a", "b"] }, { path: ["a"] }]);
});

test("readJson() accepts the texts that JSON.parse accepts", () => {
  for (const text of ["null", " -1.5e+3 ", '"\\u00e9\\n\\""', "[]", "{}", '[true,false,{"":0}]']) {
    const json = readJson(text);
    assert.ok(json.kind === "valid", text);
    assert.deepEqual(json.value, JSON.parse(text), text);
  }
});

test("readJson() reads a long string", () => {
  const json = readJson(`"${"x\\n".repeat(500_000)}"`);
  assert.ok(json.kind === "valid");
  assert.equal(json.value, "x\n".repeat(500_000));
});

test("readJson() has the last place of a duplicate key", () => {
  const json = readJson('{"a": [1],\n "b": 2,\n "a": 3}');
  assert.ok(json.kind === "valid");
  assert.deepEqual(json.duplicates, [{ path: ["a"] }]);
  assert.deepEqual(json.placeOf(["a"]), { line: 3, column: 2 });
  assert.deepEqual(json.placeOf(["constructor"]), { line: 1, column: 1 });
});

test("readJson() needs little memory beyond its text and value", () => {
  // Copies of the paths of all values would take 2 GB; the rest of this process takes some.
  const text = `{"${"a".repeat(100_000)}": [${"0,".repeat(20_000)}0]}`;
  const before = process.memoryUsage().rss;
  assert.equal(readJson(text).kind, "valid");
  assert.ok(process.memoryUsage().rss - before < 1_000 << 20);
});

test("readJson() reports a limited number of duplicate keys", () => {
  const json = readJson(`{${'"a": 0, '.repeat(100_000)}"b": 0}`);
  assert.ok(json.kind === "valid");
  assert.equal(json.duplicates.length, 100);
});

test("locateJsonError() finds no error in exactly the texts that JSON.parse reads", () => {
  const pieces = ["{", "}", "[", "]", ",", ":", '"a"', "1", "null", " "];
  for (let seed = 0; seed < 20_000; seed++) {
    let text = "";
    for (let rest = seed; rest > 0; rest = Math.floor(rest / 10)) text += pieces[rest % 10];
    let isSound = true;
    try {
      JSON.parse(text);
    } catch {
      isSound = false;
    }
    const at = locateJsonError(text);
    assert.equal(readJson(text).kind, isSound ? "valid" : "invalid", text);
    if (isSound) assert.equal(at, text.length, text);
  }
  assert.equal(locateJsonError('{"a":1}x'), 7);
});
