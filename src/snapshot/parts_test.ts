import assert from "node:assert/strict";
import { test } from "node:test";
import { keepPart, sameContent } from "./update.ts";
import type { PolicyPart } from "./snapshot.ts";

for (
  const [name, a, b, want] of [
    ["is true for equal scalars", 1, 1, true],
    ["is false for different scalars", 1, "1", false],
    ["is false for null and an object", null, {}, false],
    ["is false for an object and null", {}, null, false],
    ["is false for a number and an object", 1, {}, false],
    ["is false for an object and a number", {}, 1, false],
    ["ignores the order of keys", { a: 1, b: 2 }, { b: 2, a: 1 }, true],
    ["treats an absent member as undefined", { a: 1 }, { a: 1, b: undefined }, true],
    ["treats an undefined member as absent", { a: 1, b: undefined }, { a: 1 }, true],
    ["is false for an added key", { a: 1 }, { a: 1, b: 2 }, false],
    ["is false for a removed key", { a: 1, b: 2 }, { a: 1 }, false],
    ["is false for lists in another order", [1, 2], [2, 1], false],
    ["is false for lists of another length", [1, 2], [1], false],
    ["is false for a list and an object", [], {}, false],
    ["is false for an object and a list", {}, [], false],
    ["is false for different nested values", { a: [{ b: 1 }] }, { a: [{ b: 2 }] }, false],
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
