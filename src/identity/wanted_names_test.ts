import assert from "node:assert/strict";
import { test } from "node:test";
import { judgeName, type WantedNames } from "./wanted_names.ts";

const LONG = `${"a".repeat(63)}.`.repeat(4);

for (
  const [name, rules, want] of [
    ["www.example.com", {}, true],
    ["WWW.Example.COM", {}, true],
    ["a.b", {}, true],
    ["xn--bcher-kva.example", {}, true],
    ["1.example.com", {}, true],
    ["localhost", {}, false],
    ["localhost", { names: ["localhost"] }, true],
    ["LOCALHOST", { names: ["LocalHost"] }, true],
    ["", {}, false],
    [".", {}, false],
    [".example.com", {}, false],
    ["www.example.com.", {}, false],
    ["www..example.com", {}, false],
    ["-a.example.com", {}, false],
    ["a-.example.com", {}, false],
    ["a_b.example.com", {}, false],
    ["*.example.com", {}, false],
    ["*.example.com", { names: ["*.example.com"] }, false],
    ["a b.example.com", {}, false],
    ["../../etc/passwd", {}, false],
    ["bücher.example", {}, false],
    ["a\u0000.example.com", {}, false],
    ["192.0.2.1", {}, false],
    ["192.0.2.1", { names: ["192.0.2.1"] }, false],
    ["2001:db8::1", {}, false],
    ["[::1]", {}, false],
    [`${"a".repeat(63)}.com`, {}, true],
    [`${"a".repeat(64)}.com`, {}, false],
    [`${LONG}com`.slice(0, 253), {}, true],
    [`${LONG}com`.slice(0, 254), {}, false],
    ["a".repeat(10_000_000), {}, false],
    ["www.example.com", { suffixes: [".example.com"] }, true],
    ["a.www.example.com", { suffixes: [".example.com"] }, true],
    ["example.com", { suffixes: [".example.com"] }, false],
    ["badexample.com", { suffixes: [".example.com"] }, false],
    ["badexample.com", { suffixes: ["example.com"] }, false],
    ["www.example.com", { suffixes: ["Example.com"] }, true],
    ["example.com.evil.org", { suffixes: [".example.com"] }, false],
    ["example.com", { names: ["example.com"], suffixes: [".other.org"] }, true],
    ["www.example.com", { names: ["example.com"] }, false],
    ["a.other.org", { names: ["example.com"], suffixes: [".other.org"] }, true],
  ] as readonly (readonly [string, Partial<WantedNames>, boolean])[]
) {
  const shown = name.length > 60 ? `${name.length} characters` : JSON.stringify(name);
  test(`judgeName() ${want ? "allows" : "refuses"} ${shown} with ${JSON.stringify(rules)}`, () => {
    const fault = judgeName({ names: [], suffixes: [], ...rules }, name);
    assert.equal(fault === undefined, want, fault ?? "allowed");
  });
}
