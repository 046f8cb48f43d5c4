import assert from "node:assert/strict";
import { test } from "node:test";
import { HostTable } from "./host_table.ts";

const NAMES = [
  "shop.example",
  "*.example",
  "*.eu.example",
  "shop.ingress.*",
  "shop.*",
  "ported.example:9000",
];
const table = new HostTable(NAMES.map((name) => [name, name] as const), 8080);

for (
  const [authority, want] of [
    ["shop.example", "shop.example"],
    ["SHOP.example", "shop.example"],
    ["shop.example:8080", "shop.example"],
    ["shop.example:81", "shop.*"],
    ["a.example", "*.example"],
    ["a.eu.example", "*.eu.example"],
    [".example", undefined],
    ["example", undefined],
    ["shop.ingress.consul", "shop.ingress.*"],
    ["shop.other", "shop.*"],
    ["shop.", undefined],
    ["ported.example:9000", "ported.example:9000"],
    ["ported.example", "*.example"],
    ["", undefined],
  ] as const
) {
  test(`HostTable finds ${want ?? "no host"} for "${authority}"`, () => {
    const found = table.find(authority);
    assert.equal(found, want);
  });
}

test("HostTable uses `*` for unmatched names, and the first of equal names", () => {
  const any = new HostTable([["*", "first"], ["*", "second"], ["a", "a"], ["A", "b"]], 80);
  assert.equal(any.find("unmatched"), "first");
  assert.equal(any.find(""), "first");
  assert.equal(any.find("a"), "a");
});

test("HostTable finds one of many wildcards of the same length, and the first of equal ones", () => {
  const names = ["a.ingress.*", "b.ingress.*", "c.ingress.*", "*.aa", "*.bb"];
  const many = new HostTable([...names, ...names].map((name, index) => [name, index]), 80);
  assert.deepEqual(
    ["b.ingress.x:80", "c.ingress.y", "q.bb", "d.ingress.x"].map((at) => many.find(at)),
    [
      1,
      2,
      4,
      undefined,
    ],
  );
});
