import assert from "node:assert/strict";
import test from "node:test";
import { cpuMs } from "../../test/kit/process/cpu_time.ts";
import { createAuthority, TRUST_DOMAIN } from "../../test/kit/certs/certificates.ts";
import {
  type Authority,
  type CertificateOverrides,
  type IssuedLeaf,
} from "../../test/kit/certs/authority.ts";
import { parseCertificate } from "./certificate.ts";
import type { ChainVerdict } from "./chain.ts";
import { judgeMeshPeer, type MeshPeer } from "../../test/kit/certs/judge_mesh_peer.ts";
import { generateKey, type KeyPair, mintCertificate } from "../../test/kit/certs/mint.ts";

const NOW_MS = Date.UTC(2026, 10, 21, 12);
const HOUR_MS = 3_600_000;
const CA = createAuthority({ nowMs: NOW_MS });
const KEY = generateKey();
const URI = `spiffe://${TRUST_DOMAIN}/ns/default/dc/dc1/svc/web`;
/** The certificate has no hint of its issuer. */
const NO_HINT = { issuer: "", authorityKeyId: Uint8Array.of(1, 2, 3) };
const UNKNOWN_CRITICAL = { oid: "1.3.6.1.4.1.99999.1", critical: true, value: Uint8Array.of(5, 0) };
const NAME_CONSTRAINTS = { oid: "2.5.29.30", critical: false, value: Uint8Array.of(0x30, 0) };

function leafWith(overrides: CertificateOverrides = {}, authority: Authority = CA): IssuedLeaf {
  return authority.issueLeaf({ service: "web", key: KEY, overrides });
}

function judge(issued: IssuedLeaf, changes: Partial<MeshPeer> = {}): ChainVerdict {
  return judgeMeshPeer({
    leaf: issued.certDer,
    presented: issued.chainDer,
    roots: [parseCertificate(CA.rootDer)],
    nowMs: NOW_MS,
    usage: "client",
    trustDomains: [TRUST_DOMAIN],
    strictSpiffeChain: false,
    ...changes,
  });
}

function assertRefused(verdict: ChainVerdict, code: string, reason: RegExp): void {
  assert.ok(verdict.kind === "untrusted", JSON.stringify(verdict));
  assert.equal(verdict.code, code);
  assert.match(verdict.reason, reason);
}

test("a mesh validator trusts a plain leaf", () => {
  const verdict = judge(leafWith());
  assert.ok(verdict.kind === "trusted", JSON.stringify(verdict));
  assert.equal(verdict.uri, URI);
  assert.equal(verdict.id?.service, "web");
});

test("a mesh validator trusts a leaf that is older than its root", () => {
  const root = parseCertificate(CA.rootDer);
  assert.ok(parseCertificate(leafWith().certDer).notBeforeMs < root.notBeforeMs);
  assert.equal(judge(leafWith()).kind, "trusted");
});

for (
  const [name, overrides, reason] of [
    ["expired", { notAfterMs: NOW_MS - 1000 }, /expired/],
    ["not valid yet", { notBeforeMs: NOW_MS + 1000 }, /not valid before/],
    ["a CA", { ca: {} }, /is a CA/],
    ["without digitalSignature", { keyUsage: ["keyEncipherment"] }, /digitalSignature/],
    ["that may sign certificates", { keyUsage: ["digitalSignature", "keyCertSign"] }, /of a CA/],
    ["that may sign revocations", { keyUsage: ["digitalSignature", "cRLSign"] }, /of a CA/],
    ["for servers only", { extendedKeyUsage: ["serverAuth"] }, /lacks clientAuth/],
    ["for anything", { extendedKeyUsage: ["2.5.29.37.0"] }, /lacks clientAuth/],
    ["with an unknown critical extension", { extensions: [UNKNOWN_CRITICAL] }, /not understood/],
    ["with name constraints", { extensions: [NAME_CONSTRAINTS] }, /not understood/],
    ["with two URI names", { uris: [URI, `${URI}2`] }, /two or more/],
    ["with the same URI name twice", { uris: [URI, URI] }, /two or more/],
    ["without a URI name", { uris: [], dnsNames: ["web.example"] }, /no URI/],
    ["without names", { uris: [] }, /no URI/],
    ["of another trust domain", { uris: [URI.replace("1111", "9999")] }, /not ours/],
    ["of a gateway", { uris: [`spiffe://${TRUST_DOMAIN}/gateway/mesh/dc/dc1`] }, /service id/],
    ["of a CA's id", { uris: [`spiffe://${TRUST_DOMAIN}`] }, /service id/],
    ["with NUL in its URI", { uris: [`${URI}\u0000.evil`] }, /printable/],
  ] as const satisfies readonly (readonly [string, CertificateOverrides, RegExp])[]
) {
  test(`a mesh validator refuses a leaf ${name}`, () => {
    assertRefused(judge(leafWith(overrides)), "identity_invalid", reason);
  });
}

test("a mesh validator refuses a leaf without extended key usage", () => {
  const { publicKey } = KEY;
  const certDer = mintCertificate({
    publicKey,
    signer: CA.key.privateKey,
    notBeforeMs: NOW_MS,
    notAfterMs: NOW_MS + HOUR_MS,
    uris: [URI],
    ca: false,
  });
  assertRefused(judge({ ...leafWith(), certDer }), "identity_invalid", /lacks clientAuth/);
});

test("a mesh validator checks the extended key usage by direction", () => {
  const leaf = leafWith({ extendedKeyUsage: ["clientAuth"] });
  assert.equal(judge(leaf, { usage: "client" }).kind, "trusted");
  assertRefused(judge(leaf, { usage: "server" }), "identity_invalid", /lacks serverAuth/);
});

test("a mesh validator accepts a DNS name beside the one URI", () => {
  assert.equal(judge(leafWith({ dnsNames: ["web.example"] })).kind, "trusted");
});

test("a mesh validator refuses a leaf signed with SHA-1", () => {
  assertRefused(judge(leafWith({ hash: "sha1" })), "chain_untrusted", /has signed it/);
});

test("a mesh validator refuses a leaf of another CA with the same name and key id", () => {
  const rootName = "pri-same";
  const ours = createAuthority({ nowMs: NOW_MS, name: rootName });
  const theirs = createAuthority({ nowMs: NOW_MS, name: rootName });
  const id = parseCertificate(ours.rootDer).subjectKeyId ?? "";
  const authorityKeyId = Uint8Array.from(id.match(/../g) ?? [], (hex) => parseInt(hex, 16));
  const verdict = judge(leafWith({ authorityKeyId }, theirs), {
    roots: [parseCertificate(ours.rootDer)],
    presented: [theirs.rootDer],
  });
  assertRefused(verdict, "chain_untrusted", /has signed it/);
});

test("a mesh validator refuses a self-signed leaf", () => {
  const overrides = { signer: KEY.privateKey, issuer: "", subject: "" };
  assertRefused(judge(leafWith(overrides)), "chain_untrusted", /has signed it/);
});

test("a mesh validator refuses names that differ although the signature is right", () => {
  const verdict = judge(leafWith({ issuer: "another issuer" }));
  assertRefused(verdict, "chain_untrusted", /has signed it/);
});

test("a mesh validator links by signature if names and key ids are missing or wrong", () => {
  const intermediate = CA.intermediate();
  const certDer = mintCertificate({
    publicKey: KEY.publicKey,
    signer: intermediate.key.privateKey,
    notBeforeMs: NOW_MS,
    notAfterMs: NOW_MS + HOUR_MS,
    uris: [URI],
    extendedKeyUsage: ["clientAuth"],
  });
  assert.equal(judge({ ...leafWith({}, intermediate), certDer }).kind, "trusted");
  const wrongHint = { authorityKeyId: Uint8Array.of(1, 2, 3) };
  assert.equal(judge(leafWith(wrongHint, intermediate)).kind, "trusted");
});

test("a mesh validator ignores an empty name on either side", () => {
  assert.equal(judge(leafWith({ issuer: "" })).kind, "trusted");
  assert.equal(judge(leafWith({ issuer: "an issuer" }, CA.intermediate())).kind, "trusted");
});

for (
  const [name, overrides, reason] of [
    ["is expired", { notAfterMs: NOW_MS - 1000 }, /expired/],
    ["is not valid yet", { notBeforeMs: NOW_MS + 1000 }, /not valid before/],
    ["is no CA", { ca: false }, /not a CA/],
    ["may not sign certificates", { keyUsage: ["digitalSignature"] }, /may not sign/],
    ["has an unknown critical extension", { extensions: [UNKNOWN_CRITICAL] }, /not understood/],
    ["has name constraints", { extensions: [NAME_CONSTRAINTS] }, /not understood/],
    ["is for e-mail", { extendedKeyUsage: ["1.3.6.1.5.5.7.3.4"] }, /not for TLS clients/],
  ] as const satisfies readonly (readonly [string, CertificateOverrides, RegExp])[]
) {
  test(`a mesh validator refuses a chain whose intermediate ${name}`, () => {
    const issued = leafWith({}, CA.intermediate({ overrides }));
    assertRefused(judge(issued), "chain_untrusted", reason);
  });

  test(`a mesh validator refuses a chain whose root ${name}`, () => {
    const ca = createAuthority({ nowMs: NOW_MS, overrides });
    const verdict = judge(leafWith({}, ca), { roots: [parseCertificate(ca.rootDer)] });
    assertRefused(verdict, "chain_untrusted", reason);
  });
}

test("a mesh validator refuses an issuer without basic constraints", () => {
  const root = mintCertificate({
    publicKey: CA.key.publicKey,
    signer: CA.key.privateKey,
    notBeforeMs: NOW_MS,
    notAfterMs: NOW_MS + HOUR_MS,
  });
  const verdict = judge(leafWith(), { roots: [parseCertificate(root)] });
  assert.equal(verdict.kind, "untrusted");
});

test("a mesh validator counts CA certificates against the path length", () => {
  const below = (pathLength: number) =>
    leafWith({}, CA.intermediate({ overrides: { ca: { pathLength } } }).intermediate());
  assert.equal(judge(below(1)).kind, "trusted");
  assertRefused(judge(below(0)), "chain_untrusted", /allows only 0/);
});

test("a mesh validator refuses a leaf that signs another leaf", () => {
  const middle = leafWith();
  const other = generateKey();
  const certDer = CA.issueLeaf({
    service: "db",
    key: other,
    overrides: { signer: KEY.privateKey, issuer: "", authorityKeyId: Uint8Array.of(1) },
  }).certDer;
  const verdict = judge({ ...middle, certDer }, { presented: [middle.certDer] });
  assert.equal(verdict.kind, "untrusted");
});

test("a mesh validator prefers a root in force to a cross-signed certificate that expires sooner", () => {
  const next = createAuthority({ nowMs: NOW_MS });
  const issued = leafWith(
    { notAfterMs: NOW_MS + 900 * HOUR_MS },
    next.withChain([CA.crossSign(next)]),
  );
  const both = [CA, next].map((authority) => parseCertificate(authority.rootDer));
  const verdict = judge(issued, { roots: both });
  assert.ok(verdict.kind === "trusted");
  assert.equal(verdict.notAfterMs, NOW_MS + 900 * HOUR_MS);
  const old = judge(issued);
  assert.ok(old.kind === "trusted");
  assert.ok(old.notAfterMs < verdict.notAfterMs);
});

test("a mesh validator tries another path when the likely one is broken", () => {
  const next = createAuthority({ nowMs: NOW_MS });
  const expired = CA.crossSign(next, { notAfterMs: NOW_MS - 1000 });
  const issued = leafWith({}, next.withChain([expired, CA.crossSign(next)]));
  assert.equal(judge(issued).kind, "trusted");
});

test("a mesh validator checks the CA's own SPIFFE id only with strictSpiffeChain", () => {
  const bare = createAuthority({ nowMs: NOW_MS, overrides: { uris: [] } });
  const other = createAuthority({ nowMs: NOW_MS, overrides: { uris: ["spiffe://other.consul"] } });
  const uris = [`spiffe://${TRUST_DOMAIN}`, "spiffe://other.consul"];
  const both = createAuthority({ nowMs: NOW_MS, overrides: { uris } });
  for (const ca of [bare, other, both]) {
    const roots = [parseCertificate(ca.rootDer)];
    assert.equal(judge(leafWith({}, ca), { roots }).kind, "trusted");
    const strict = judge(leafWith({}, ca), { roots, strictSpiffeChain: true });
    assertRefused(strict, "chain_untrusted", /trust domain/);
  }
  assert.equal(judge(leafWith(), { strictSpiffeChain: true }).kind, "trusted");
});

for (const keyKind of ["ec-p384", "ec-p521", "rsa-2048", "ed25519"] as const) {
  test(`a mesh validator trusts a leaf under a ${keyKind} root`, () => {
    const ca = createAuthority({ nowMs: NOW_MS, keyKind });
    const verdict = judge(leafWith({}, ca), { roots: [parseCertificate(ca.rootDer)] });
    assert.equal(verdict.kind, "trusted", JSON.stringify(verdict));
  });
}

test("a mesh validator refuses garbage, whatever its length", () => {
  const issued = leafWith();
  const { certDer } = issued;
  const cases = [
    new Uint8Array(),
    Uint8Array.of(0x30, 0x80),
    certDer.subarray(0, certDer.length - 1),
    Uint8Array.from([...certDer, 0]),
    new Uint8Array(20_000),
  ];
  for (const leaf of cases) {
    assertRefused(judge(issued, { leaf }), "identity_invalid", /Cannot read certificate/);
  }
});

test("a mesh validator ignores garbage beside a good chain", () => {
  const issued = leafWith({}, CA.intermediate());
  const presented = [Uint8Array.of(1, 2, 3), ...issued.chainDer, new Uint8Array(500)];
  assert.equal(judge(issued, { presented }).kind, "trusted");
});

test("a mesh validator refuses more bytes than 64 KiB at once", () => {
  const presented = Array.from({ length: 100 }, () => new Uint8Array(10_000));
  assertRefused(judge(leafWith(), { presented }), "chain_untrusted", /more than 65536 bytes/);
});

test("a mesh validator reads only the first ten presented certificates", () => {
  const issued = leafWith({}, CA.intermediate());
  const strangers = Array.from({ length: 10 }, () => leafWith().certDer);
  assert.equal(
    judge(issued, { presented: [...strangers.slice(1), ...issued.chainDer] }).kind,
    "trusted",
  );
  const late = judge(issued, { presented: [...strangers, ...issued.chainDer] });
  assertRefused(late, "chain_untrusted", /only the first 10 of 11/);
});

function leafUnder(intermediates: number): IssuedLeaf {
  let authority = CA;
  for (let depth = 0; depth < intermediates; depth++) {
    authority = authority.intermediate({ overrides: { ca: {} } });
  }
  return leafWith({}, authority);
}

test("a mesh validator trusts a chain of eight certificates, leaf and root included", () => {
  assert.equal(judge(leafUnder(6)).kind, "trusted");
});

for (
  const [intermediates, reason] of [
    [7, /longer than 8/],
    [9, /longer than 8/],
    [20, /only the first 10 of 20/],
  ] as const
) {
  test(`a mesh validator refuses a chain with ${intermediates} intermediates`, () => {
    assertRefused(judge(leafUnder(intermediates)), "chain_untrusted", reason);
  });
}

test("a mesh validator tries 32 roots, and no more", () => {
  const authorities = Array.from({ length: 33 }, () => createAuthority({ nowMs: NOW_MS }));
  const roots = authorities.map(({ rootDer }) => parseCertificate(rootDer));
  const [known, late] = authorities.slice(31).map((authority) =>
    judge(leafWith(NO_HINT, authority), { roots })
  );
  assert.equal(known?.kind, "trusted");
  assert.ok(late);
  assertRefused(late, "chain_untrusted", /no path to a root within 32 signature checks/);
});

test("a mesh validator keeps signature checks for the leaf, whatever else is presented", () => {
  const authorities = Array.from({ length: 8 }, () => createAuthority({ nowMs: NOW_MS }));
  const roots = authorities.map(({ rootDer }) => parseCertificate(rootDer));
  // Ten certificates that every root could have signed by their names, and none did.
  const presented = Array.from({ length: 10 }, () => nameless(KEY, KEY));
  const leaf = leafWith(NO_HINT, authorities.at(-1));
  assert.equal(judge(leaf, { roots, presented }).kind, "trusted");
});

test("a mesh validator ends on certificates that sign each other", () => {
  const keys = Array.from({ length: 10 }, () => generateKey());
  const presented = keys.map((key, index) => nameless(key, keys[(index + 1) % keys.length] ?? key));
  const twice = [...presented.slice(0, 5), ...presented.slice(0, 5)];
  for (const loop of [presented, twice]) {
    const leaf = leafWith({ signer: (keys[0] ?? KEY).privateKey, issuer: "" });
    const startMs = cpuMs();
    assert.equal(judge(leaf, { presented: loop }).kind, "untrusted");
    assert.ok(cpuMs() - startMs < 1000);
  }
});

test("a mesh validator bounds the signature checks of a chain built to be slow", () => {
  // Without names and key ids, in the worst order, so that every pair must be tried.
  const keys = Array.from({ length: 10 }, () => generateKey());
  const presented = keys.map((key, index) => nameless(key, keys[index + 1] ?? CA.key)).reverse();
  const leaf = leafWith({ signer: (keys[0] ?? KEY).privateKey, issuer: "" });
  const verdict = judge(leaf, { presented: presented.reverse() });
  assertRefused(verdict, "chain_untrusted", /within 32 signature checks/);
});

test("a mesh validator computes only with keys that a root vouches for", () => {
  // Keys that take a hundred times as long as a root's.
  const keys = Array.from({ length: 10 }, () => generateKey("ec-p521"));
  const [first = KEY] = keys;
  const below = leafWith({ signer: first.privateKey, issuer: "" });
  // A root vouches for this leaf, but it is no CA and so no issuer.
  const known = leafWith();
  // The same holds for a CA that may not sign certificates.
  const mute = leafWith({ ca: {}, keyUsage: ["digitalSignature"] });
  for (
    const [end, others] of [
      [keys.at(-1), []],
      [KEY, [known.certDer]],
      [KEY, [mute.certDer]],
    ] as const
  ) {
    const made = keys.map((key, index) => nameless(key, keys[index + 1] ?? end ?? KEY));
    const presented = [...others, ...made.slice(others.length).reverse()];
    const startMs = cpuMs();
    for (let times = 0; times < 20; times++) {
      assertRefused(judge(below, { presented }), "chain_untrusted", /no root in force/);
    }
    assert.ok(cpuMs() - startMs < 1_000);
  }
});

function nameless(subject: KeyPair, signer: KeyPair): Uint8Array {
  return mintCertificate({
    publicKey: subject.publicKey,
    signer: signer.privateKey,
    notBeforeMs: NOW_MS - HOUR_MS,
    notAfterMs: NOW_MS + HOUR_MS,
    ca: {},
    keyUsage: ["keyCertSign"],
  });
}
