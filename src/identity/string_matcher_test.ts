import assert from "node:assert/strict";
import test from "node:test";
import { cpuMs } from "../../test/kit/process/cpu_time.ts";
import { prepareRegexes, ProxyError, REGEX_LIMIT_CHARS } from "../base/mod.ts";
import { compileStringMatcher, needsMatchers } from "./leaf_rules.ts";
import { NO_RULES, type StringMatcher } from "./validation.ts";

const REGEX = { kind: "regex", regex: "a" } as const;

await prepareRegexes();

for (
  const [kind, value, ignoreCase, yes, no] of [
    ["exact", "web", false, ["web"], ["Web", "web2", "awe", ""]],
    ["exact", "Web", true, ["web", "WEB"], ["web2"]],
    ["exact", "straße", true, ["STRAßE"], ["STRASSE"]],
    ["prefix", "web", false, ["web", "web2"], ["aweb", "Web"]],
    ["prefix", "web", true, ["WEB2"], ["aweb"]],
    ["suffix", ".example", false, ["a.example", ".example"], ["a.example2", "a.Example"]],
    ["suffix", ".Example", true, ["a.eXample"], ["example"]],
    ["contains", "/ns/", false, ["/a/ns/b", "/ns/"], ["/NS/", "ns"]],
    ["contains", "/ns/", true, ["/a/NS/b"], ["ns"]],
  ] as const
) {
  test(`compileStringMatcher() ${kind} ${value}${ignoreCase ? ", any case" : ""}`, () => {
    const matches = compileStringMatcher({ kind, value, ignoreCase });
    for (const given of yes) assert.equal(matches(given), true, given);
    for (const given of no) assert.equal(matches(given), false, given);
  });
}

for (
  const [regex, yes, no] of [
    ["spiffe://td/ns/[^/]+/sa/web", ["spiffe://td/ns/a/sa/web"], [
      "spiffe://td/ns/a/b/sa/web",
      "spiffe://td/ns/a/sa/web2",
      "xspiffe://td/ns/a/sa/web",
    ]],
    // A regex matches the whole value, in any order of alternatives.
    ["a|ab", ["a", "ab"], ["abc", "xa", ""]],
    ["(?i)web", ["WEB"], ["web2"]],
    ["web$", ["web"], ["web\n"]],
    ["a.b", ["a-b"], ["a\nb", "ab"]],
    ["\\Qa.b\\E", ["a.b"], ["axb"]],
    ["[[:alpha:]]+", ["abc"], ["ab1"]],
    ["(?P<name>a)\\z", ["a"], ["b"]],
    ["\\pL+", ["é"], ["1"]],
  ] as const
) {
  test(`compileStringMatcher() regex ${regex}`, () => {
    const matches = compileStringMatcher({ kind: "regex", regex });
    for (const given of yes) assert.equal(matches(given), true, given);
    for (const given of no) assert.equal(matches(given), false, given);
  });
}

for (
  const [name, matcher, reason] of [
    ["an empty prefix", { kind: "prefix", value: "", ignoreCase: false }, /empty value/],
    ["an empty exact value", { kind: "exact", value: "", ignoreCase: false }, /empty value/],
    [
      "a long value",
      { kind: "suffix", value: "a".repeat(5000), ignoreCase: false },
      /longer than 4096/,
    ],
    ["an empty regex", { kind: "regex", regex: "" }, /regex is empty/],
    ["an open group", { kind: "regex", regex: "(" }, /is not one of RE2: .*missing closing/],
    ["look-ahead", { kind: "regex", regex: "(?=a)b" }, /is not one of RE2/],
    ["look-behind", { kind: "regex", regex: "(?<=a)b" }, /is not one of RE2/],
    ["a back-reference", { kind: "regex", regex: "(a)\\1" }, /is not one of RE2/],
    ["a possessive quantifier", { kind: "regex", regex: "a++" }, /is not one of RE2/],
    ["a repeat above 1000", { kind: "regex", regex: "a{1001}" }, /is not one of RE2/],
    ["repeats of repeats", { kind: "regex", regex: "((a{100}){100}){100}" }, /is not one of RE2/],
    ["a large program", { kind: "regex", regex: "(a{50}b{50}){20}" }, /steps, more than 2000/],
    [
      "a long regex",
      { kind: "regex", regex: "a".repeat(REGEX_LIMIT_CHARS + 1) },
      /1001 characters/,
    ],
  ] as const satisfies readonly (readonly [string, StringMatcher, RegExp])[]
) {
  test(`compileStringMatcher() refuses ${name}`, () => {
    assert.throws(() => compileStringMatcher(matcher), (error) => {
      assert.ok(error instanceof ProxyError);
      assert.equal(error.code, "credentials_invalid");
      assert.match(error.message, reason);
      return true;
    });
  });
}

test("compileStringMatcher() matches no value beyond its limit against a regex", () => {
  const matches = compileStringMatcher({ kind: "regex", regex: "a*" });
  assert.equal(matches("a".repeat(4096)), true);
  assert.equal(matches("a".repeat(4097)), false);
});

test("compileStringMatcher() matches in time linear to the value, without backtracking", () => {
  const matches = compileStringMatcher({ kind: "regex", regex: "(a+)+b|(a|a?)+c|(.*.*.*)*d" });
  const startMs = cpuMs();
  assert.equal(matches("a".repeat(4000)), false);
  assert.ok(cpuMs() - startMs < 1000);
});

test("needsMatchers() is true only for rules with a regex", () => {
  const rules = { ...NO_RULES, matchers: [{ type: "uri", matcher: REGEX }] } as const;
  assert.equal(needsMatchers({ kind: "ca", rootPems: [], rules }), true);
  assert.equal(needsMatchers({ kind: "spiffe", bundles: {}, rules }), true);
  assert.equal(needsMatchers({ kind: "ca", rootPems: [], rules: NO_RULES }), false);
  assert.equal(needsMatchers({ kind: "mesh", rootPems: [], trustDomains: [] }), false);
});
