import assert from "node:assert/strict";
import { test } from "node:test";
import { locateJsonError } from "./json_error.ts";

for (
  const [text, want] of [
    ["", 0],
    ["{", 1],
    ["<html>", 0],
    ['{"a":1', 6],
    ['{"a":1}x', 7],
    ['{"a" 1}', 5],
    ['{"a":1,}', 7],
    ["[1,]", 3],
    ["[1 2]", 3],
    ["[}", 1],
    ["{]", 1],
    ["]", 0],
    ['{"a":"\\x"}', 5],
    ['{"a":"b\nc"}', 5],
    ["[01]", 2],
    ["[tru]", 1],
    ["{1:2}", 1],
    ["[1]", 3],
    [' {"a": [true, null, -1.5e3, "\\u00e9"]} ', 39],
  ] as const
) {
  test(`locateJsonError() finds ${want} in ${JSON.stringify(text)}`, () => {
    assert.equal(locateJsonError(text), want);
  });
}

test("locateJsonError() reads to the end exactly what JSON.parse reads", () => {
  const pieces = ["{", "}", "[", "]", ",", ":", '"a"', "1", "null", " "];
  for (let seed = 0; seed < 20_000; seed++) {
    let text = "";
    for (let rest = seed; rest > 0; rest = Math.floor(rest / 10)) text += pieces[rest % 10];
    let sound = true;
    try {
      JSON.parse(text);
    } catch {
      sound = false;
    }
    const at = locateJsonError(text);
    if (sound) assert.equal(at, text.length, text);
    else assert.ok(at <= text.length, text);
  }
});
