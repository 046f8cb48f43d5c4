import assert from "node:assert/strict";
import { test } from "node:test";
import { keepPart, sameContent } from "./update.ts";
import type { PolicyPart } from "./snapshot.ts";

for (
  const [name, a, b, want] of [
    ["takes equal scalars", 1, 1, true],
    ["tells scalars apart", 1, "1", false],
    ["tells null from an object", null, {}, false],
    ["tells an object from null", {}, null, false],
    ["tells a number from an object", 1, {}, false],
    ["tells an object from a number", {}, 1, false],
    ["ignores the order of keys", { a: 1, b: 2 }, { b: 2, a: 1 }, true],
    ["takes absent as undefined", { a: 1 }, { a: 1, b: undefined }, true],
    ["takes undefined as absent", { a: 1, b: undefined }, { a: 1 }, true],
    ["sees an added key", { a: 1 }, { a: 1, b: 2 }, false],
    ["sees a removed key", { a: 1, b: 2 }, { a: 1 }, false],
    ["minds the order of lists", [1, 2], [2, 1], false],
    ["minds the length of lists", [1, 2], [1], false],
    ["tells a list from an object", [], {}, false],
    ["tells an object from a list", {}, [], false],
    ["looks inside", { a: [{ b: 1 }] }, { a: [{ b: 2 }] }, false],
  ] as const
) {
  test(`sameContent() ${name}`, () => assert.equal(sameContent(a, b), want));
}

test("keepPart() keeps the object while the content is the same", () => {
  const before: PolicyPart = { version: 3, intentions: [], defaultAction: "deny" };
  assert.equal(keepPart<PolicyPart>(before, { intentions: [], defaultAction: "deny" }, 9), before);
});

test("keepPart() gives changed content the new version", () => {
  const before: PolicyPart = { version: 3, intentions: [], defaultAction: "deny" };
  const after = keepPart<PolicyPart>(before, { intentions: [], defaultAction: "allow" }, 9);
  assert.deepEqual(after, { version: 9, intentions: [], defaultAction: "allow" });
});
