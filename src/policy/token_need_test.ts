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
    ["demands nothing where nothing is asked for", undefined, undefined, true],
    ["takes a token of its provider", [need("okta")], {}, true],
    ["takes no request without tokens", [need("okta")], undefined, false],
    ["takes no token of another provider", [need("auth0")], {}, false],
    ["takes one of several", [need("auth0"), need("okta")], {}, true],
    ["takes what a claim says", ADMIN, { role: "admin" }, true],
    ["takes nothing else", ADMIN, { role: "guest" }, false],
    ["takes no claim that is missing", ADMIN, {}, false],
    ["takes no list that has it", ADMIN, { role: ["admin"] }, false],
    ["takes no number for a text", [need("okta", ["n", "1"])], { n: 1 }, false],
    ["takes what is inside", [need("okta", ["a.b", "x"])], { a: { b: "x" } }, true],
    ["looks into no list", [need("okta", ["a.0", "x"])], { a: ["x"] }, false],
    ["looks into no text", [need("okta", ["a.length", "1"])], { a: "x" }, false],
    [
      "takes nothing that every object has",
      [need("okta", ["constructor.name", "Object"])],
      {},
      false,
    ],
    ["wants all claims", [need("okta", ["a", "1"], ["b", "2"])], { a: "1", b: "3" }, false],
    ["takes no provider when there is none to take", [], {}, false],
  ] as const
) {
  test(`hasToken() ${name}`, () => {
    const verified = okta && new Map([["okta", okta as Readonly<Record<string, unknown>>]]);
    assert.equal(hasToken(needs, verified), want);
  });
}

test("needText() names claims, and not what they have to be", () => {
  assert.equal(
    needText([need("okta", ["role", "secret"]), need("auth0")]),
    "a token of okta with role, or of auth0",
  );
});
