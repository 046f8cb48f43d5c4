import assert from "node:assert/strict";
import { test } from "node:test";
import { seededRandom } from "../base/mod.ts";
import type { Fields } from "./head.ts";
import {
  DEFAULT_PATH_RULES,
  normalizePath,
  type PathRules,
  pathWithoutQuery,
  ruleUnderscores,
} from "./path.ts";

const RAW: PathRules = { ...DEFAULT_PATH_RULES, normalize: false };
const MERGED: PathRules = { ...DEFAULT_PATH_RULES, mergeSlashes: true };
const REJECT: PathRules = { ...DEFAULT_PATH_RULES, escapedSlashes: "reject" };
const UNESCAPE: PathRules = { ...DEFAULT_PATH_RULES, escapedSlashes: "unescape" };
const REDIRECT: PathRules = { ...MERGED, escapedSlashes: "redirect" };

for (
  const [path, want, rules = DEFAULT_PATH_RULES] of [
    ["/", "/"],
    ["*", "*"],
    ["", ""],
    ["/a/b.c/.well-known/...", "/a/b.c/.well-known/..."],
    ["/a/./b", "/a/b"],
    ["/a/../b", "/b"],
    ["/../../a", "/a"],
    ["/a/..", "/"],
    ["/a/b/.", "/a/b/"],
    ["/a//../b", "/a/b"],
    ["/a//b", "/a//b"],
    ["/..a/b..", "/..a/b.."],
    ["/public/%2e%2E/admin", "/admin"],
    ["/public/.%2e/admin", "/admin"],
    ["/public\\..\\admin", "/admin"],
    // As in Envoy: an application that drops path parameters would be left with the dots.
    ["/pre/..;/admin", "/admin"],
    ["/pre/..;x=1/admin", "/admin"],
    ["/pre/%2e%2E;/admin", "/admin"],
    ["/a/.;v=1/b", "/a/b"],
    ["/a/b/..;", "/a/"],
    ["/a;v=1/b;/...;/..%3b/c", "/a;v=1/b;/...;/..%3b/c"],
    ["/a?x=/../b", "/a?x=/../b"],
    ["/a/..?q", "/?q"],
    ["/a/.?q", "/a/?q"],
    ["/%61%2D%7e%2Ez", "/a-~.z"],
    ["/a%2Fb%5cc", "/a%2Fb%5cc"],
    ["/%2f..%2fadmin", "/%2f..%2fadmin"],
    ["/a%20b%3f%23", "/a%20b%3f%23"],
    ['/a"<>`{}^|b', "/a%22%3C%3E%60%7B%7D%5E%7Cb"],
    ["/caf\xc3\xa9", "/caf%C3%A9"],
    ["/100%", "/100%"],
    ["/%zz", "/%zz"],
    ["/%%32e%%32e/x", "/%%32e%%32e/x"],
    ["/%2%65%2%65/x", "/%2%65%2%65/x"],
    ["/%252e%252e/x", "/%252e%252e/x"],
    // Without normalisation only the configured changes are made.
    ["/a/../%61//b", "/a/../%61//b", RAW],
    ["/a/..//b", "/a/../b", { ...RAW, mergeSlashes: true }],
    ["//a///b//?c//d", "/a/b/?c//d", MERGED],
    ["/a//../b", "/a/b", MERGED],
    ["/a%2Fb%5Cc%2e", "/a/b/c.", UNESCAPE],
    ["/a%2F..%2fb", "/b", UNESCAPE],
    ["/a%2%46b", "/a%2%46b", UNESCAPE],
    ["/a%252Fb", "/a%252Fb", UNESCAPE],
    ["/a?b%2Fc", "/a?b%2Fc", REJECT],
    ["/a?b%2Fc", "/a?b%2Fc", REDIRECT],
    ["/a//b", "/a/b", REDIRECT],
  ] as readonly [string, string, PathRules?][]
) {
  test(`normalizePath() ${JSON.stringify(path)} is ${JSON.stringify(want)}`, () => {
    assert.equal(normalizePath(path, rules), want);
  });
}

for (
  const [path, want, rules = DEFAULT_PATH_RULES] of [
    ["/a#b", { status: 400 }],
    ["/a?b#c", { status: 400 }],
    ["/a#", { status: 400 }, RAW],
    ["a", { status: 400 }],
    ["http://a/", { status: 400 }],
    ["/%00", { status: 400 }],
    ["/\u0100", { status: 400 }],
    ["/a?\xe9", { status: 400 }],
    ["/a/../b?\xe9", { status: 400 }],
    ["/\xe9", { status: 400 }, RAW],
    ["/a%2Fb", { status: 400 }, REJECT],
    ["/a%5cb", { status: 400 }, { ...RAW, escapedSlashes: "reject" }],
    ["/a%2F..%5Cb?c%2f", { status: 307, location: "/b?c%2f" }, REDIRECT],
    ["/%2Fevil/", { status: 307, location: "/evil/" }, REDIRECT],
    // Without merged slashes the location must still be a path of this host.
    ["/%2Fevil/", { status: 307, location: "/.//evil/" }, { ...REDIRECT, mergeSlashes: false }],
    ["/%5Cevil/", { status: 307, location: "/./\\evil/" }, { ...RAW, escapedSlashes: "redirect" }],
  ] as readonly [string, unknown, PathRules?][]
) {
  test(`normalizePath() refuses ${JSON.stringify(path)} with ${JSON.stringify(want)}`, () => {
    assert.deepEqual(normalizePath(path, rules), want);
  });
}

test("normalizePath() of any path is stable, has no dot segments, and keeps its slashes", () => {
  const random = seededRandom(7);
  const pieces = [
    ...'/\\.%?2eEfF5cC0a1~ "{é',
    "%2e",
    "%2F",
    "%5c",
    "%25",
    "..",
    "/../",
    "%%",
    "//",
    "%41",
  ];
  const all: PathRules[] = [];
  for (const normalize of [true, false]) {
    for (const mergeSlashes of [true, false]) {
      for (const escapedSlashes of ["keep", "unescape"] as const) {
        all.push({ ...DEFAULT_PATH_RULES, normalize, mergeSlashes, escapedSlashes });
      }
    }
  }
  let changed = 0;
  for (let round = 0; round < 20_000; round++) {
    let path = "/";
    for (let i = Math.floor(random() * 12); i > 0; i--) {
      path += pieces[Math.floor(random() * pieces.length)];
    }
    for (const rules of all) {
      const once = normalizePath(path, rules);
      if (typeof once !== "string") {
        const refused = rules.normalize && path.includes("%00") || path.includes("é");
        assert.ok(refused, `${path} is refused`);
        continue;
      }
      assert.ok(!once.includes("é"), `${path} gave ${once}`);
      if (once !== path) changed++;
      assert.equal(normalizePath(once, rules), once, `${path} gave ${once}`);
      assert.ok(once.startsWith("/"));
      const query = path.indexOf("?");
      if (query >= 0) assert.ok(once.endsWith(path.slice(query)), `${path} gave ${once}`);
      const bare = pathWithoutQuery(once);
      if (rules.mergeSlashes) assert.ok(!bare.includes("//"), `${path} gave ${once}`);
      if (rules.normalize) {
        assert.ok(!/\\|\/(?:\.|%2e){1,2}(?:\/|$)/i.test(bare), `${path} gave ${once}`);
      }
      if (rules.escapedSlashes === "keep" && !path.includes("..") && !/%2e/i.test(path)) {
        const escaped = (text: string) => text.match(/%(?:2f|5c)/gi)?.length ?? 0;
        assert.equal(escaped(bare), escaped(pathWithoutQuery(path)), `${path} gave ${once}`);
      }
    }
  }
  assert.ok(changed > 10_000);
});

test("pathWithoutQuery() ends before the first question mark", () => {
  assert.equal(pathWithoutQuery("/a?b?c"), "/a");
  assert.equal(pathWithoutQuery("/a"), "/a");
});

for (
  const [rule, admitted, left] of [
    ["allow", true, ["a_b", "1", "A_B", "c", "2", "C", "d_", "3", "D_"]],
    ["drop", true, ["c", "2", "C"]],
    ["reject", false, undefined],
  ] as const
) {
  test(`ruleUnderscores() ${rule}`, () => {
    const fields: Fields = ["a_b", "1", "A_B", "c", "2", "C", "d_", "3", "D_"];
    assert.equal(ruleUnderscores(fields, rule), admitted);
    if (left) assert.deepEqual(fields, left);
    assert.equal(ruleUnderscores(["c", "2", "C"], rule), true);
  });
}
