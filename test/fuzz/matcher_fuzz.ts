/**
 * Matchers: any regex is compiled or refused within bounds, and matches within bounds; what JavaScript's
 * own engine understands alike gives the same answer.
 *
 * @module
 */

import assert from "node:assert/strict";
import { prepareRegexes } from "../../src/base/mod.ts";
import { compileStringMatcher } from "../../src/identity/leaf_rules.ts";
import { type FuzzTarget, refuses } from "./fuzz.ts";

await prepareRegexes();

const encode = (text: string) => new TextEncoder().encode(text);
const VALUES = [
  "spiffe://td/ns/a/sa/web",
  "web.example.com",
  "",
  "a",
  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
  `${"ab".repeat(200)}c`,
];
/** Literals, dots, alternatives, groups and plain repeats mean the same to both engines. */
const PLAIN = /^(?:[a-z/:]|\.|\|)+$/;

export const target: FuzzTarget = {
  name: "matcher",
  corpus: [
    "spiffe://[^/]+/ns/[^/]+/sa/.*",
    "(a+)+b|(a|a?)+c",
    "(?i)web\\.example\\.(com|org)",
    "[[:alpha:]]{1,50}\\pL*?",
    "(?P<name>\\Qa.b\\E)\\b$",
    "web.example|a|ab",
  ].map(encode),
  dictionary: ["{1000}", "(?s)", "\\p{Greek}", "[^", "(?:", ")*", "){50}", "(?=", "\\1", "|"],
  limitBytes: 2000,
  run(input, random) {
    const regex = new TextDecoder().decode(input);
    const matches = refuses(["credentials_invalid"], () => {
      return compileStringMatcher({ kind: "regex", regex });
    });
    const value = VALUES[Math.floor(random() * VALUES.length)] ?? "";
    const answer = matches?.(value);
    if (matches && PLAIN.test(regex)) {
      assert.equal(answer, new RegExp(`^(?:${regex})$`).test(value), `${regex} on ${value}`);
    }
    const plain = refuses(["credentials_invalid"], () => {
      return compileStringMatcher({ kind: "contains", value: regex, ignoreCase: true });
    });
    if (plain) assert.equal(plain(`x${regex.replace(/[a-z]/g, (c) => c.toUpperCase())}y`), true);
  },
};
