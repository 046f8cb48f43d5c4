import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../test/kit/certs/certificates.ts";
import { fingerprintOf } from "./certificate.ts";
import { retiredAnchors } from "./rules_validator.ts";
import { NO_RULES, type Validation } from "./validation.ts";

const NOW_MS = Date.UTC(2026, 10, 21, 12);
const until = (ms: number) =>
  createAuthority({ nowMs: NOW_MS, overrides: { notAfterMs: NOW_MS + ms } }).rootPem;
const OLD = until(-1000);
const LAST = until(0);
const LASTING = until(1000);
const ALL = [OLD, LAST, LASTING];

const ca = (...rootPems: string[]): Validation => ({ kind: "ca", rootPems, rules: NO_RULES });
const mesh = (...rootPems: string[]): Validation => ({ kind: "mesh", rootPems, trustDomains: [] });
const spiffe = (bundles: Readonly<Record<string, readonly string[]>>): Validation => ({
  kind: "spiffe",
  bundles,
  rules: NO_RULES,
});

for (
  const [name, before, now, want] of [
    ["an expired anchor of ca rules", ca(...ALL), ca(), [""]],
    ["an expired anchor of mesh rules", mesh(...ALL), mesh(), [""]],
    ["an expired anchor of spiffe rules, by domain", spiffe({ a: ALL, b: [OLD] }), spiffe({}), [
      "a",
      "b",
    ]],
    [
      "an anchor that left one domain and stays in another",
      spiffe({ a: ALL, b: [] }),
      spiffe({ b: [OLD] }),
      [
        "a",
      ],
    ],
    ["no anchor that is still in force", ca(...ALL), ca(OLD), []],
    ["no anchor that had not expired", ca(LAST, LASTING), ca(), []],
    ["no anchor of rules of another kind", ca(...ALL), mesh(), []],
  ] as const
) {
  test(`retiredAnchors() names ${name}`, () => {
    const retired = retiredAnchors(before, now, NOW_MS);
    assert.deepEqual(retired.map(({ trustDomain }) => trustDomain), want);
    for (const { rootId, certificate } of retired) {
      assert.equal(rootId, fingerprintOf(certificate));
      assert.equal(certificate.notAfterMs, NOW_MS - 1000);
    }
  });
}
