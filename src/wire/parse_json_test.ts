import assert from "node:assert/strict";
import { test } from "node:test";
import { parseJson } from "./parse_json.ts";

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
