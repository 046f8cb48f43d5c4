import assert from "node:assert/strict";
import test from "node:test";
import { createAuthority, TRUST_DOMAIN } from "../../test/kit/certs/certificates.ts";
import { formatPem } from "../wire/mod.ts";
import type { Authority, CertificateOverrides } from "../../test/kit/certs/authority.ts";
import { parseCertificate } from "./certificate.ts";
import type { ChainVerdict } from "./chain.ts";
import { type CrlOptions, mintCrlPem } from "../../test/kit/certs/mint_crl.ts";
import { parseCrls, Revocation } from "./crl.ts";
import { generateKey } from "../../test/kit/certs/mint.ts";
import { createPeerValidator } from "./rules_validator.ts";
import { NO_RULES, type PeerRules } from "./validation.ts";

const NOW_MS = Date.UTC(2026, 10, 21, 12);
const HOUR_MS = 3_600_000;
const KEY = generateKey();
const ROOT = createAuthority({ nowMs: NOW_MS, name: "root" });
const MIDDLE = ROOT.intermediate({ overrides: { subject: "middle" } });
const STRANGER = createAuthority({ nowMs: NOW_MS, name: "root" });
const SERIAL = "0a:0b:0c";
const [MIDDLE_DER = new Uint8Array()] = MIDDLE.chainDer;
const MIDDLE_SERIAL = parseCertificate(MIDDLE_DER).serial;

function listOf(authority: Authority, options: Partial<CrlOptions> = {}): string {
  const issuer = authority === MIDDLE ? "middle" : "root";
  return mintCrlPem({
    signer: authority.key.privateKey,
    issuer,
    thisUpdateMs: NOW_MS - HOUR_MS,
    nextUpdateMs: NOW_MS + HOUR_MS,
    ...options,
  });
}

interface Case {
  readonly crls: readonly string[];
  readonly rules?: Partial<PeerRules>;
  readonly issuer?: Authority;
  readonly roots?: readonly string[];
  readonly leaf?: CertificateOverrides;
  readonly presented?: readonly Uint8Array[];
}

function judge(
  { crls, rules = {}, issuer = MIDDLE, roots, leaf = {}, presented }: Case,
): ChainVerdict {
  const issued = issuer.issueLeaf({
    service: "web",
    key: KEY,
    overrides: { serial: Uint8Array.of(10, 11, 12), ...leaf },
  });
  const validator = createPeerValidator(
    {
      kind: "ca",
      rootPems: roots ?? [ROOT.rootPem],
      rules: { ...NO_RULES, crlPems: crls, ...rules },
    },
    { serviceTrustDomains: [TRUST_DOMAIN], strictSpiffeChain: false },
  );
  return validator.judge({
    leaf: issued.certDer,
    presented: presented ?? issued.chainDer,
    nowMs: NOW_MS,
    usage: "client",
  });
}

const CLEAN = [listOf(ROOT), listOf(MIDDLE)];
const IDP = "2.5.29.28";
const scopeOf = (number: number) => ({
  oid: IDP,
  critical: true,
  value: Uint8Array.of(0x30, 3, 0x80 | number, 1, 0xff),
});

for (
  const [name, options, reason] of [
    ["lists of each CA, which revoke others", {
      crls: [listOf(ROOT, { revoked: ["01"] }), listOf(MIDDLE, { revoked: ["02", "0a:0b"] })],
    }, undefined],
    ["a revoked leaf", {
      crls: [listOf(ROOT), listOf(MIDDLE, { revoked: ["01", SERIAL, "02"] })],
    }, /its certificate with serial 0a:0b:0c is revoked/],
    ["a leaf whose serial another CA revoked", {
      crls: [listOf(ROOT, { revoked: [SERIAL] }), listOf(MIDDLE)],
    }, undefined],
    ["a revoked leaf with a high first byte", {
      crls: [listOf(ROOT), listOf(MIDDLE, { revoked: ["ff:01"] })],
      leaf: { serial: Uint8Array.of(0, 0xff, 1) },
    }, /serial ff:01 is revoked/],
    ["a revoked intermediate", {
      crls: [listOf(ROOT, { revoked: [MIDDLE_SERIAL] }), listOf(MIDDLE)],
    }, /the issuer with serial .* is revoked/],
    ["a revoked intermediate where lists apply to leaves only", {
      crls: [listOf(ROOT, { revoked: [MIDDLE_SERIAL] }), listOf(MIDDLE)],
      rules: { onlyLeafCrl: true },
    }, undefined],
    ["no list of the root", { crls: [listOf(MIDDLE)] }, /no revocation list of the CA/],
    ["no list of the root where lists apply to leaves only", {
      crls: [listOf(MIDDLE)],
      rules: { onlyLeafCrl: true },
    }, undefined],
    ["no list of the leaf's issuer", { crls: [listOf(ROOT)] }, /vouches for its certificate/],
    ["no list of the leaf's issuer where lists apply to leaves only", {
      crls: [listOf(ROOT)],
      rules: { onlyLeafCrl: true },
    }, /vouches for its certificate/],
    ["only lists of other CAs", {
      crls: [mintCrlPem({
        signer: STRANGER.key.privateKey,
        issuer: "other",
        thisUpdateMs: NOW_MS - HOUR_MS,
      })],
    }, /no revocation list of the CA/],
    ["a list that another CA of the same name signed", {
      crls: [listOf(ROOT), listOf(MIDDLE, { signer: STRANGER.key.privateKey })],
    }, /no revocation list of the CA/],
    [
      "a list with SHA-1",
      { crls: [listOf(ROOT), listOf(MIDDLE, { hash: "sha1" })] },
      /no revocation/,
    ],
    ["a list past its next update", {
      crls: [listOf(ROOT), listOf(MIDDLE, { nextUpdateMs: NOW_MS - 1000 })],
    }, /revocation list of the CA with serial .* expired at/],
    ["a list past its next update where dates are ignored", {
      crls: [listOf(ROOT), listOf(MIDDLE, { nextUpdateMs: NOW_MS - 1000 })],
      rules: { allowExpired: true },
    }, undefined],
    ["a revocation in a list past its next update where dates are ignored", {
      crls: [listOf(ROOT), listOf(MIDDLE, { nextUpdateMs: NOW_MS - 1000, revoked: [SERIAL] })],
      rules: { allowExpired: true },
    }, /is revoked/],
    ["a list that is not valid yet", {
      crls: [listOf(ROOT), listOf(MIDDLE, { thisUpdateMs: NOW_MS + 1000 })],
    }, /is not valid before/],
    ["a newer list without the revocation", {
      crls: [
        ...CLEAN,
        listOf(MIDDLE, { thisUpdateMs: NOW_MS - 2 * HOUR_MS, revoked: [SERIAL] }),
      ],
    }, undefined],
    ["a newer list with the revocation", {
      crls: [...CLEAN, listOf(MIDDLE, { thisUpdateMs: NOW_MS - 1000, revoked: [SERIAL] })],
    }, /is revoked/],
    ["an expired list beside a current one", {
      crls: [listOf(MIDDLE, { nextUpdateMs: NOW_MS - 1, revoked: ["01"] }), ...CLEAN],
    }, undefined],
    ["a list without a next update, of version 1", {
      crls: [
        listOf(ROOT),
        mintCrlPem({
          signer: MIDDLE.key.privateKey,
          issuer: "middle",
          thisUpdateMs: NOW_MS - HOUR_MS,
          version: 1,
        }),
      ],
    }, undefined],
    ["a list about CAs alone", {
      crls: [listOf(ROOT), listOf(MIDDLE, { extensions: [scopeOf(2)] })],
    }, /no revocation list/],
    ["a list about leaves alone", {
      crls: [listOf(ROOT), listOf(MIDDLE, { extensions: [scopeOf(1)], revoked: [SERIAL] })],
    }, /is revoked/],
    ["a root's list about CAs alone", {
      crls: [listOf(ROOT, { extensions: [scopeOf(2)] }), listOf(MIDDLE)],
    }, undefined],
    ["a root's list about leaves alone", {
      crls: [listOf(ROOT, { extensions: [scopeOf(1)] }), listOf(MIDDLE)],
    }, /no revocation list/],
    ["all lists in one text", { crls: [CLEAN.join("")] }, undefined],
  ] as const satisfies readonly (readonly [string, Case, RegExp | undefined])[]
) {
  test(`revocation: ${reason ? "refuses" : "trusts"} with ${name}`, () => {
    const verdict = judge(options);
    if (!reason) {
      assert.equal(verdict.kind, "trusted", JSON.stringify(verdict));
      return;
    }
    assert.ok(verdict.kind === "untrusted", "trusted");
    assert.match(verdict.reason, reason);
    assert.equal(verdict.code, "chain_untrusted");
  });
}

test("revocation: an intermediate as anchor needs its own list and no other", () => {
  const roots = [formatPem("CERTIFICATE", MIDDLE_DER)];
  assert.equal(judge({ crls: [listOf(MIDDLE)], roots }).kind, "trusted");
  assert.equal(judge({ crls: [listOf(ROOT)], roots }).kind, "untrusted");
});

test("revocation: another path is used if one CA was revoked", () => {
  const next = createAuthority({ nowMs: NOW_MS, name: "next" });
  const serial = Uint8Array.of(1);
  const crossed = ROOT.crossSign(next, { serial });
  const both = [ROOT.rootPem, next.rootPem];
  const lists = [
    listOf(ROOT, { revoked: ["01"] }),
    listOf(next, { issuer: "next" }),
  ];
  const issued = { issuer: next, presented: [crossed] };
  assert.equal(judge({ ...issued, crls: lists }).kind, "untrusted");
  assert.equal(judge({ ...issued, crls: lists, roots: both }).kind, "trusted");
});

test("revocation: a list of a CA that may not sign lists is ignored", () => {
  const mute = ROOT.intermediate({
    overrides: { subject: "middle", keyUsage: ["digitalSignature", "keyCertSign"] },
  });
  const list = listOf(mute, { issuer: "middle" });
  const verdict = judge({ issuer: mute, crls: [listOf(ROOT), list] });
  assert.ok(verdict.kind === "untrusted");
  assert.match(verdict.reason, /may not sign revocation lists/);
});

test("revocation: a list of a CA without a name, and a list without one, are matched by signature", () => {
  const nameless = ROOT.intermediate();
  for (
    const [authority, issuer] of [[nameless, ""], [nameless, "middle"], [MIDDLE, ""]] as const
  ) {
    const judged = (revoked: readonly string[]) =>
      judge({ issuer: authority, crls: [listOf(ROOT), listOf(authority, { issuer, revoked })] });
    assert.equal(judged([]).kind, "trusted");
    assert.equal(judged([SERIAL]).kind, "untrusted");
  }
});

test("revocation: a list is valid at both ends of its time", () => {
  for (const [thisUpdateMs, nextUpdateMs] of [[NOW_MS, NOW_MS + 1000], [NOW_MS - 1000, NOW_MS]]) {
    const lists = [listOf(ROOT), listOf(MIDDLE, { thisUpdateMs, nextUpdateMs } as CrlOptions)];
    assert.equal(judge({ crls: lists }).kind, "trusted");
  }
});

test("Revocation.judge() is valid from the newest list's date to the earliest next update", () => {
  const { certDer } = MIDDLE.issueLeaf({ service: "web", key: KEY });
  const path = [certDer, MIDDLE_DER, ROOT.rootDer].map(parseCertificate);
  for (const [newest, oldest] of [[ROOT, MIDDLE], [MIDDLE, ROOT]] as const) {
    const crls = parseCrls([
      listOf(newest, { thisUpdateMs: NOW_MS - 1000, nextUpdateMs: NOW_MS + 2000 }),
      listOf(oldest, { thisUpdateMs: NOW_MS - 2000, nextUpdateMs: NOW_MS + 1000 }),
    ]);
    const rules = { onlyLeaf: false, allowExpired: false };
    const times = { fromMs: NOW_MS - 1000, untilMs: NOW_MS + 1000 };
    assert.deepEqual(new Revocation(crls, rules).judge(path, NOW_MS), { kind: "good", ...times });
  }
});

test("revocation: the verdict ends with the earliest next update", () => {
  const crls = [listOf(ROOT, { nextUpdateMs: NOW_MS + 5000 }), listOf(MIDDLE)];
  const verdict = judge({ crls });
  assert.ok(verdict.kind === "trusted");
  assert.equal(verdict.notAfterMs, NOW_MS + 5000);
});

test("revocation: a peer accepted untrusted may be revoked, and is not verified", () => {
  const verdict = judge({
    crls: [listOf(ROOT), listOf(MIDDLE, { revoked: [SERIAL] })],
    rules: { acceptUntrusted: true },
  });
  assert.ok(verdict.kind === "trusted");
  assert.equal(verdict.verified, false);
});

test("revocation: a revoked leaf is refused with many roots of one key", () => {
  // One root more than the number of paths that are checked.
  const roots = Array.from(
    { length: 9 },
    (_, index) =>
      formatPem("CERTIFICATE", ROOT.crossSign(ROOT, { serial: Uint8Array.of(index + 1) })),
  );
  const refused = judge({ issuer: ROOT, roots, crls: [listOf(ROOT, { revoked: [SERIAL] })] });
  assert.ok(refused.kind === "untrusted");
  assert.match(refused.reason, /its certificate with serial 0a:0b:0c is revoked/);
  assert.equal(judge({ issuer: ROOT, roots, crls: [listOf(ROOT)] }).kind, "trusted");
});

test("revocation: a CA without a list is not trusted beside another of the same name", () => {
  const validator = createPeerValidator({
    kind: "ca",
    rootPems: [ROOT.rootPem, STRANGER.rootPem],
    rules: { ...NO_RULES, crlPems: [listOf(ROOT)] },
  }, { serviceTrustDomains: [TRUST_DOMAIN], strictSpiffeChain: false });
  const judged = (issuer: Authority) => {
    const leaf = issuer.issueLeaf({ service: "web", key: KEY }).certDer;
    return validator.judge({ leaf, presented: [], nowMs: NOW_MS, usage: "client" });
  };
  const wanted = /there is no revocation list of the CA .*, which vouches for its certificate/;
  // Before the list's signer is known, and after.
  for (const _ of ["first", "again"]) {
    const verdict = judged(STRANGER);
    assert.ok(verdict.kind === "untrusted");
    assert.match(verdict.reason, wanted);
    assert.equal(judged(ROOT).kind, "trusted");
  }
});
