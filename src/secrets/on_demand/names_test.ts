import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock.ts";
import { DEFAULT_ON_DEMAND_RULES, judgeName, type OnDemandRules } from "../mod.ts";
import { NegativeNames, sourceOf, SourceRates } from "./limits.ts";

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
  ] as readonly (readonly [string, Partial<OnDemandRules>, boolean])[]
) {
  const shown = name.length > 60 ? `${name.length} characters` : JSON.stringify(name);
  test(`judgeName() ${want ? "allows" : "refuses"} ${shown} with ${JSON.stringify(rules)}`, () => {
    const fault = judgeName({ ...DEFAULT_ON_DEMAND_RULES, ...rules }, name);
    assert.equal(fault === undefined, want, fault ?? "allowed");
  });
}

for (
  const [remote, want] of [
    ["192.0.2.7:40312", "192.0.2.7"],
    ["unix", "unix"],
    ["[2001:db8:1:2:3:4:5:6]:443", "2001:db8:1:2"],
    ["[2001:DB8:0001:02::1]:443", "2001:db8:1:2"],
    ["[2001:db8::1]:443", "2001:db8:0:0"],
    ["[::1]:443", "0:0:0:0"],
    ["[::]:443", "0:0:0:0"],
    ["[fe80::1%eth0]:443", "fe80:0:0:0"],
    ["[::ffff:192.0.2.7]:443", "192.0.2.7"],
  ] as const
) test(`sourceOf() ${remote}`, () => assert.equal(sourceOf(remote), want));

test("SourceRates and NegativeNames forget their oldest rather than grow", () => {
  const clock = new FakeClock();
  const rates = new SourceRates(clock);
  const negatives = new NegativeNames(clock, () => 0);
  assert.deepEqual([rates.take("10.0.0.1:1", 1), rates.take("10.0.0.1:2", 1)], [true, false]);
  negatives.add("first.x", { reason: "none", ttlMs: 1_000_000 });
  for (let i = 0; i < 25_000; i++) {
    rates.take(`[2001:db8:${(i >> 16).toString(16)}:${(i & 0xffff).toString(16)}::1]:1`, 1);
    negatives.add(`n${i}.x`, { reason: "none", ttlMs: 1_000_000 });
  }
  assert.deepEqual([rates.size, negatives.size], [10_000, 10_000]);
  assert.equal(negatives.get("first.x"), undefined);
  assert.equal(negatives.get("n24999.x"), "none");
  clock.advanceNow(1_000_000);
  assert.equal(negatives.get("n24999.x"), undefined);
});
