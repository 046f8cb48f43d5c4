import assert from "node:assert/strict";
import test from "node:test";
import { createAuthority } from "../../test/kit/certs/certificates.ts";
import { canonicalIpText, prepareRegexes } from "../base/mod.ts";
import { contextTag, TAG } from "../wire/mod.ts";
import { derElement, derOid, derSequence, derText } from "../wire/der_writer.ts";
import { altNamesOf, commonNameOf } from "./certificate_names.ts";
import type { CertificateOverrides } from "../../test/kit/certs/authority.ts";
import { type Certificate, parseCertificate } from "./certificate.ts";
import { generateKey } from "../../test/kit/certs/mint.ts";
import { compileSanMatchers, dnsNameCovers } from "./leaf_rules.ts";
import type { SanMatcher, SanType, StringMatcher } from "./validation.ts";

await prepareRegexes();

const CA = createAuthority();
const KEY = generateKey();
const UPN = "1.3.6.1.4.1.311.20.2.3";

function leafWith(overrides: CertificateOverrides): Certificate {
  return parseCertificate(CA.issueLeaf({ service: "web", key: KEY, overrides }).certDer);
}

const ip = (...bytes: number[]) => derElement(contextTag(7, "primitive"), Uint8Array.from(bytes));
const email = (text: string) => derText(contextTag(1, "primitive"), text);
const other = (oid: string, tag: number, text: string) =>
  derElement(
    contextTag(0, "constructed"),
    derOid(oid),
    derElement(contextTag(0, "constructed"), derText(tag, text)),
  );
const IP6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

const LEAF = leafWith({
  uris: ["spiffe://td/ns/a/sa/web", "https://web.example/"],
  dnsNames: ["Web.Example.com", "*.wild.example", "*"],
  altNames: [
    email("Web@example.com"),
    ip(10, 0, 0, 1),
    ip(...IP6),
    other(UPN, TAG.utf8String, "wéb@corp"),
  ],
});

const exact = (value: string, ignoreCase = false): StringMatcher => ({
  kind: "exact",
  value,
  ignoreCase,
});

test("altNamesOf() reads every type", () => {
  assert.deepEqual(altNamesOf(LEAF), {
    dns: ["Web.Example.com", "*.wild.example", "*"],
    uris: ["spiffe://td/ns/a/sa/web", "https://web.example/"],
    emails: ["Web@example.com"],
    ips: ["10.0.0.1", "2001:db8::1"],
    others: [{ oid: UPN, value: "wéb@corp" }],
  });
});

test("altNamesOf() leaves out values that are neither text nor an address", () => {
  const leaf = leafWith({
    dnsNames: ["good.example\u0000.evil", "né.example"],
    altNames: [
      ip(1, 2, 3),
      email("a\u0000@b"),
      other(UPN, TAG.utf8String, "a\u0000b"),
      other(UPN, TAG.octetString, "a"),
      derElement(contextTag(0, "constructed"), derOid(UPN)),
      derElement(
        contextTag(0, "constructed"),
        derOid(UPN),
        derElement(contextTag(0, "constructed"), derText(TAG.utf8String, "a")),
        derSequence(),
      ),
      derElement(contextTag(4, "constructed"), derSequence()),
      derElement(contextTag(8, "primitive"), Uint8Array.of(42)),
    ],
  });
  const none = { dns: [], emails: [], ips: [], others: [] };
  assert.deepEqual({ ...altNamesOf(leaf), uris: [] }, { ...none, uris: [] });
});

test("commonNameOf() reads the common name", () => {
  assert.equal(commonNameOf(leafWith({ subject: "web.example" })), "web.example");
  assert.equal(commonNameOf(leafWith({})), undefined);
});

for (
  const [type, matcher, want, oid] of [
    ["dns", exact("web.example.com"), true],
    ["dns", exact("WEB.example.COM"), true],
    ["dns", exact("example.com"), false],
    ["dns", exact("a.wild.example"), true],
    ["dns", exact("A.Wild.example"), true],
    ["dns", exact("wild.example"), false],
    ["dns", exact(".wild.example"), false],
    ["dns", exact("a.b.wild.example"), false],
    // A star alone matches only itself.
    ["dns", exact("anything"), false],
    // Wildcards apply to exact values only.
    ["dns", { kind: "suffix", value: ".wild.example", ignoreCase: false }, true],
    ["dns", { kind: "prefix", value: "a.wild", ignoreCase: false }, false],
    ["dns", { kind: "suffix", value: "example.com", ignoreCase: false }, false],
    ["dns", { kind: "suffix", value: "EXAMPLE.com", ignoreCase: true }, true],
    ["dns", { kind: "regex", regex: "Web\\..*" }, true],
    ["dns", exact("spiffe://td/ns/a/sa/web"), false],
    ["uri", exact("spiffe://td/ns/a/sa/web"), true],
    ["uri", exact("https://web.example/"), true],
    ["uri", exact("spiffe://TD/ns/a/sa/web"), false],
    ["uri", { kind: "prefix", value: "spiffe://td/", ignoreCase: false }, true],
    ["uri", { kind: "regex", regex: "spiffe://td/ns/[^/]+/sa/web" }, true],
    ["uri", { kind: "regex", regex: "spiffe://td/ns" }, false],
    ["uri", exact("Web.Example.com"), false],
    ["email", exact("Web@example.com"), true],
    ["email", exact("web@example.com"), false],
    ["email", exact("web@example.com", true), true],
    ["ip", exact("10.0.0.1"), true],
    ["ip", exact("10.0.0.2"), false],
    ["ip", exact("2001:DB8:0:0::1"), true],
    ["ip", exact("2001:db8::2"), false],
    ["ip", { kind: "prefix", value: "10.0.", ignoreCase: false }, true],
    ["other_name", exact("wéb@corp"), true, UPN],
    ["other_name", exact("wéb@corp"), false, "1.2.3"],
    ["other_name", exact("other"), false, UPN],
  ] as const satisfies readonly (readonly [SanType, StringMatcher, boolean, string?])[]
) {
  const matched: SanMatcher = { type, matcher, ...oid !== undefined && { oid } };
  test(`compileSanMatchers() ${JSON.stringify(matched)} is ${want}`, () => {
    assert.equal(compileSanMatchers([matched])(LEAF), want);
  });
}

test("compileSanMatchers() requires one matching matcher", () => {
  const no = { type: "dns", matcher: exact("no.example") } as const;
  const yes = { type: "email", matcher: exact("Web@example.com") } as const;
  assert.equal(compileSanMatchers([no, no])(LEAF), false);
  assert.equal(compileSanMatchers([no, yes])(LEAF), true);
  assert.equal(compileSanMatchers([])(LEAF), true);
  assert.equal(compileSanMatchers([no])(leafWith({ uris: [], subject: "no.example" })), false);
});

test("compileSanMatchers() matches no name with NUL in it", () => {
  const leaf = leafWith({ dnsNames: ["good.example\u0000.evil.example"] });
  for (
    const matcher of [
      exact("good.example"),
      { kind: "prefix", value: "good.example", ignoreCase: false },
      { kind: "suffix", value: ".evil.example", ignoreCase: false },
      { kind: "contains", value: "example", ignoreCase: false },
      { kind: "regex", regex: "(?s).*" },
    ] as const
  ) {
    assert.equal(compileSanMatchers([{ type: "dns", matcher }])(leaf), false, matcher.kind);
  }
});

for (
  const [name, matcher, reason] of [
    ["an invalid IP address", { type: "ip", matcher: exact("10.0.0") }, /no address: "10.0.0"/],
    [
      "an other_name without oid",
      { type: "other_name", matcher: exact("a") },
      /needs a dotted oid/,
    ],
    [
      "a bad oid",
      { type: "other_name", oid: "1.2.", matcher: exact("a") },
      /dotted oid, not "1.2."/,
    ],
    ["an empty DNS name", { type: "dns", matcher: exact("") }, /empty value/],
    ["a bad regex", { type: "uri", matcher: { kind: "regex", regex: "(" } }, /not one of RE2/],
  ] as const satisfies readonly (readonly [string, SanMatcher, RegExp])[]
) {
  test(`compileSanMatchers() refuses ${name}`, () => {
    assert.throws(() => compileSanMatchers([matcher]), reason);
  });
}

for (
  const [pattern, name, want] of [
    ["a.example", "A.EXAMPLE", true],
    ["*.example", "a.example", true],
    ["*.example", "*.example", true],
    ["*.example", ".example", false],
    ["*.example", "example", false],
    ["*.example", "a.b.example", false],
    ["a*.example", "ab.example", false],
    ["a.*.example", "a.b.example", false],
    ["*", "example", false],
    ["*.", "a.", false],
  ] as const
) {
  test(`dnsNameCovers() ${pattern} ${want ? "covers" : "does not cover"} ${name}`, () => {
    assert.equal(dnsNameCovers(pattern, name), want);
  });
}

for (
  const [text, want] of [
    ["10.0.0.1", "10.0.0.1"],
    ["255.255.255.255", "255.255.255.255"],
    ["256.0.0.1", undefined],
    ["10.0.0.01", undefined],
    ["10.0.0.1.", undefined],
    ["10.0.0", undefined],
    ["0x0a000001", undefined],
    ["::1", "::1"],
    ["2001:DB8:0:0:0:0:0:1", "2001:db8::1"],
    ["::ffff:10.0.0.1", "::ffff:a00:1"],
    ["fe80::1%eth0", undefined],
    ["[::1]", undefined],
    [":::", undefined],
    ["", undefined],
  ] as const
) {
  test(`canonicalIpText() of "${text}"`, () => assert.equal(canonicalIpText(text), want));
}
