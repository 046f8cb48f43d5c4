import assert from "node:assert/strict";
import { test } from "node:test";
import { hasToken, needText, type TokenNeed } from "./token_need.ts";

const need = (provider: string, ...claims: readonly (readonly [string, string])[]): TokenNeed => ({
  provider,
  claims: claims.map(([path, value]) => ({ path: path.split("."), value })),
});

const ADMIN = [need("okta", ["role", "admin"])];

for (
  const [name, needs, okta, want] of [
    ["is true without a demand", undefined, undefined, true],
    ["accepts a token of its provider", [need("okta")], {}, true],
    ["refuses a request without tokens", [need("okta")], undefined, false],
    ["refuses a token of another provider", [need("auth0")], {}, false],
    ["accepts one of several providers", [need("auth0"), need("okta")], {}, true],
    ["accepts the value of a claim", ADMIN, { role: "admin" }, true],
    ["refuses another value", ADMIN, { role: "guest" }, false],
    ["refuses a missing claim", ADMIN, {}, false],
    ["refuses a list with the value", ADMIN, { role: ["admin"] }, false],
    ["refuses a number instead of a text", [need("okta", ["n", "1"])], { n: 1 }, false],
    ["accepts a nested claim", [need("okta", ["a.b", "x"])], { a: { b: "x" } }, true],
    ["does not look into lists", [need("okta", ["a.0", "x"])], { a: ["x"] }, false],
    ["does not look into texts", [need("okta", ["a.length", "1"])], { a: "x" }, false],
    [
      "ignores inherited properties",
      [need("okta", ["constructor.name", "Object"])],
      {},
      false,
    ],
    ["requires all claims", [need("okta", ["a", "1"], ["b", "2"])], { a: "1", b: "3" }, false],
    ["refuses an empty list of providers", [], {}, false],
  ] as const
) {
  test(`hasToken() ${name}`, () => {
    const verified = okta && new Map([["okta", okta as Readonly<Record<string, unknown>>]]);
    assert.equal(hasToken(needs, verified), want);
  });
}

test("needText() names claims without their values", () => {
  assert.equal(
    needText([need("okta", ["role", "secret"]), need("auth0")]),
    "a token of okta with role, or of auth0",
  );
});
