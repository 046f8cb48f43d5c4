import { strict as assert } from "node:assert";
import { test } from "node:test";
import { silentLog } from "../../base/mod.ts";
import { logRotation } from "./rotation_lines.ts";
import type { CredentialsPart } from "../../snapshot/mod.ts";

const FIRST: CredentialsPart = {
  version: 1,
  certPem: "leaf 1",
  keyPem: "key",
  rootPems: ["a", "b"],
  trustDomains: [],
  uri: "spiffe://a/b",
  serial: "01",
  notBeforeMs: 0,
  notAfterMs: 86_400_000,
};

for (
  const [name, change, want] of [
    ["a new leaf", { certPem: "leaf 2", serial: "02" }, ["certificate rotated"]],
    ["a leaf of another service", { certPem: "leaf 2", serial: "02", uri: "spiffe://a/c" }, [
      "warn certificate rotated with another identity",
    ]],
    ["another root", { rootPems: ["a", "b", "c"] }, ["trust rotated"]],
    ["roots in another order", { rootPems: ["b", "a"] }, []],
    ["other trust domains", { trustDomains: ["x"] }, []],
  ] as const
) {
  test(`logRotation() after ${name}`, () => {
    const logged: string[] = [];
    const log = {
      ...silentLog,
      info: (text: string) => void logged.push(text),
      warn: (text: string) => void logged.push(`warn ${text}`),
    };
    logRotation(log, undefined, FIRST);
    logRotation(log, FIRST, FIRST);
    assert.deepEqual(logged, []);
    logRotation(log, FIRST, { ...FIRST, version: 2, ...change });
    assert.deepEqual(logged, want);
  });
}
