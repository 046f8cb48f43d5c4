import assert from "node:assert/strict";
import { test } from "node:test";
import { faultOf, placeOf, rememberPlaces } from "./source_positions.ts";

/** Two sources; the third line of the text is the second of `/b.ts`, its sixth column the ninth there. */
const MAP = JSON.stringify({
  sources: ["/a.ts", "/b.ts"],
  sourcesContent: ["one\n", "zero\n  first second\n"],
  mappings: ";;ACCE,KAAM;",
});

function thrown(message: string, ...frames: readonly string[]): Error {
  const error = new Error(message);
  error.stack = [`Error: ${message}`, ...frames.map((frame) => `    at ${frame}`)].join("\n");
  return error;
}

rememberPlaces("/text.ts", MAP);
rememberPlaces("blob:1", JSON.stringify({ ...JSON.parse(MAP), mappings: "" }), { index: 1 });

for (
  const [name, frame, wanted] of [
    // Two lines come before the text, and stack traces count from 1.
    ["a place of the text", "f (/text.ts:5:1)", ["/b.ts", 2, 3]],
    ["one further right", "f (/text.ts:5:7)", ["/b.ts", 2, 9]],
    ["one left of all that is known", "/text.ts:5:0", ["/b.ts", 2, 3]],
    ["a frame without a function", "/text.ts:5:1", ["/b.ts", 2, 3]],
    ["one that was waited for", "async f (/text.ts:5:1)", ["/b.ts", 2, 3]],
    [
      "one of V8's functions from text",
      "f (eval at g (h.ts:1:1), /text.ts, <anonymous>:5:1)",
      undefined,
    ],
    ["one that V8 names by the text", "eval (/text.ts, <anonymous>:5:1)", ["/b.ts", 2, 3]],
    ["a source that runs as it is", "async blob:1:2:5", ["/b.ts", 2, 5]],
    ["a line that nothing leads to", "f (/text.ts:4:1)", undefined],
    ["another file", "f (/other.ts:5:1)", undefined],
    ["a frame that is too long", `${"(".repeat(2_000)}/text.ts:5:1)`, undefined],
  ] as const
) {
  test(`placeOf() finds ${wanted ?? "nothing"} for ${name}`, () => {
    const place = placeOf(thrown("no", "g (/host.js:1:1)", frame));
    assert.deepEqual(place && [place.path, place.line, place.column], wanted);
  });
}

test("faultOf() quotes the line, and shortens long messages", () => {
  assert.equal(faultOf(thrown("no", "/text.ts:5:1")), "no (/b.ts:2:3: first second)");
  assert.equal(faultOf(thrown("no")), "no");
  assert.equal(faultOf("no"), "no");
  const long = faultOf(thrown("n".repeat(1_000), "/text.ts:5:1"));
  assert.match(long, /^n{250}\.\.\. \(\/b\.ts:2:3: first second\)$/);
  const flood = performance.now();
  assert.equal(placeOf(thrown(`\n    at ${"(:1".repeat(1_000_000)}`, "/text.ts:5:1")), undefined);
  assert.ok(performance.now() - flood < 1_000);
});

test("rememberPlaces() drops the oldest map, and keeps nothing for text without one", () => {
  rememberPlaces("/gone.ts", MAP);
  rememberPlaces("/gone.ts", "");
  assert.equal(placeOf(thrown("no", "/gone.ts:5:1")), undefined);
  for (let n = 0; n < 128; n++) rememberPlaces(`/${n}.ts`, MAP);
  assert.equal(placeOf(thrown("no", "/text.ts:5:1")), undefined);
  assert.ok(placeOf(thrown("no", "/127.ts:5:1")));
});
