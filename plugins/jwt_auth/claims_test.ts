import assert from "node:assert/strict";
import { test } from "node:test";
import { hasClaim } from "./claims.ts";

for (
  const [what, path, value, want] of [
    ["text", ["sub"], "me", true],
    ["text further in", ["a", "b"], "x", true],
    ["an element of a list", ["roles"], "admin", true],
    ["an index of a list", ["roles", "0"], "admin", false],
    ["a list's length", ["roles", "length"], "1", false],
    ["a number", ["n"], "1", false],
    ["a property of every object", ["constructor", "name"], "Object", false],
    ["a claim with the name __proto__", ["__proto__"], "own", true],
    ["nothing", ["no", "way"], "", false],
  ] as const
) {
  test(`hasClaim() is ${want} for ${what}`, () => {
    const claims = JSON.parse(
      '{"sub":"me","a":{"b":"x"},"roles":["admin"],"n":1,"__proto__":"own"}',
    );
    assert.equal(hasClaim(claims, path, value), want);
  });
}
