import assert from "node:assert/strict";
import { test } from "node:test";
import { parseFilter } from "./filter.ts";

const ENTRY = {
  Node: { Datacenter: "dc1", Meta: { rack: "7" } },
  Service: {
    ID: "web-1",
    Tags: ["blue", "a b"],
    Meta: { version: "v1" },
    Port: 80,
    Connect: { Native: true },
  },
  Checks: [],
};

for (
  const [text, want] of [
    ["", true],
    ["Service.Meta.version == v1", true],
    ['Service.Meta.version == "v1"', true],
    ["Service.Meta.version==`v1`", true],
    ["Service.Meta.version != v1", false],
    ["Service.Meta.absent != v1", true],
    ['Service.Meta.absent == ""', false],
    ['Service.Kind == ""', true],
    ["Service.Port == 80", true],
    ["Service.Connect.Native == true", true],
    ["blue in Service.Tags", true],
    ['"a b" in Service.Tags', true],
    ["red not in Service.Tags", true],
    ["version in Service.Meta", true],
    ["Service.Tags contains blue", true],
    ["Service.Tags not contains blue", false],
    ["Checks is empty", true],
    ["Service.Tags is not empty", true],
    ['Service.ID matches "^web-[0-9]$"', true],
    ['Service.ID not matches "^web"', false],
    ['Service.Meta["version"] == v1', true],
    ["not Service.Port == 80", false],
    ["not not Service.Port == 80", true],
    // "and" binds closer than "or".
    ["Service.Port == 80 or Service.Port == 81 and Service.ID == x", true],
    ["(Service.Port == 80 or Service.Port == 81) and Service.ID == x", false],
    ["Node.Datacenter == dc1 and Node.Meta.rack == 7 and not (Service.Port == 81)", true],
    // An expression JavaScript cannot read matches nothing.
    ['Service.ID matches "("', false],
  ] as const
) {
  test(`parseFilter() ${text || "nothing"} is ${want}`, () => {
    assert.equal(parseFilter(text)(ENTRY), want);
  });
}

for (
  const text of [
    " ",
    "bogus",
    "a ==",
    "a == b c",
    "(a == b",
    "a = b",
    "in x",
    "== x",
    "a == b and",
    "1a.b == c",
  ]
) {
  test(`parseFilter() refuses ${JSON.stringify(text)}`, () => {
    assert.throws(() => parseFilter(text), /^HttpRefusal: Cannot read the filter: .* at \d+$/);
  });
}

test("parseFilter() refuses an expression that is too long or too deep", () => {
  assert.throws(() => parseFilter("x".repeat(5000)), /too long/);
  assert.throws(() => parseFilter(`${"not ".repeat(500)}a == b`), /too deeply/);
  assert.throws(() => parseFilter(`${"(".repeat(500)}a == b`), /too deeply/);
});
