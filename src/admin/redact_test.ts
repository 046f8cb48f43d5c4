import assert from "node:assert/strict";
import { test } from "node:test";
import { hide, shownJson, shownText } from "./redact.ts";

const SECRETS = ["b1946ac9-token", "hunter2-password", "abc"];

for (
  const [name, text, want] of [
    ["a secret", "token b1946ac9-token.", "token (not shown)."],
    [
      "a secret that occurs twice",
      "b1946ac9-token, again b1946ac9-token",
      "(not shown), again (not shown)",
    ],
    ["several", "b1946ac9-token:hunter2-password", "(not shown):(not shown)"],
    ["no word that equals a short secret", "abcdef", "abcdef"],
    ["a whole text with a key in it", "x -----BEGIN EC PRIVATE KEY----- y", "(not shown)"],
  ] as const
) {
  test(`hide() hides ${name}`, () => {
    assert.equal(hide(text, SECRETS), want);
    assert.equal(shownText(text, SECRETS), want);
    assert.deepEqual(JSON.parse(shownJson({ text }, SECRETS)), { text: want });
  });
}

for (
  const [name, value, want] of [
    ["a field with the name of a key", { keyPem: "x" }, { keyPem: "(not shown)" }],
    ["an object in a field with the name of a key", { token: { a: 1 } }, { token: "(not shown)" }],
    ["a list under the name of Envoy's secret", { secret: ["x"] }, { secret: "(not shown)" }],
    ["only the key of Envoy's secret object", { secret: { name: "x", key: "y" } }, {
      secret: { name: "x", key: "(not shown)" },
    }],
    ["no boolean, empty text or null", { auth: true, token: "", key: null }, {
      auth: true,
      token: "",
      key: null,
    }],
  ] as const
) {
  test(`shownJson() hides ${name}`, () => {
    assert.deepEqual(JSON.parse(shownJson(value, SECRETS)), want);
  });
}
