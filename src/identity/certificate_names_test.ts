import assert from "node:assert/strict";
import test from "node:test";
import { type AltNames, shownNames } from "./certificate_names.ts";

const NONE: AltNames = { dns: [], uris: [], emails: [], ips: [], others: [] };

for (
  const [name, names, wanted] of [
    ["no name", NONE, "it has none"],
    ["names of every type", { ...NONE, dns: ["a.example"], ips: ["::1"] }, "a.example, ::1"],
    [
      "other names by their values",
      { ...NONE, emails: ["a@b"], others: [{ oid: "1.2.3", value: "x" }] },
      "a@b, x",
    ],
    ["three of many", { ...NONE, dns: [..."abcde"], uris: ["u:1"] }, "u:1, a, b and 3 more"],
    ["the whole of one that is not too long", { ...NONE, dns: ["a".repeat(200)] }, "a".repeat(200)],
    ["the beginning of a long one", { ...NONE, dns: ["a".repeat(999)] }, `${"a".repeat(200)}...`],
  ] as const
) {
  test(`shownNames() shows ${name}`, () => assert.equal(shownNames(names), wanted));
}
