import assert from "node:assert/strict";
import { constants, sign } from "node:crypto";
import test from "node:test";
import { createAuthority, TRUST_DOMAIN } from "../../test/kit/certs/certificates.ts";
import { withTrailing } from "../../test/kit/certs/der_trailing.ts";
import { recordedLeaf, recordedRoots } from "../../test/kit/consul/recorded.ts";
import { ProxyError } from "../base/mod.ts";
import { contextTag, DerReader, TAG } from "../wire/mod.ts";
import {
  derBits,
  derBoolean,
  derElement,
  derNumber,
  derOctets,
  derOid,
  derSequence,
  derText,
} from "../wire/der_writer.ts";
import type { CertificateOverrides } from "../../test/kit/certs/authority.ts";
import {
  allowsKeyUsage,
  CERTIFICATE_LIMIT_BYTES,
  fingerprintOf,
  isEmptyName,
  parseCertificate,
} from "./certificate.ts";
import { generateKey } from "../../test/kit/certs/mint.ts";
import { OID } from "./oids.ts";
import { isSignedBy, keyFault } from "./signature.ts";

const NOW_MS = Date.UTC(2026, 10, 21, 12);
const CA = createAuthority({ nowMs: NOW_MS });
const KEY = generateKey();

function minted(overrides: CertificateOverrides = {}): Uint8Array {
  return CA.issueLeaf({ service: "web", key: KEY, overrides }).certDer;
}

test("parseCertificate() reads a leaf of a real Consul", () => {
  const { leaf, uri } = recordedLeaf("leaf_secondary_rotated");
  const certificate = parseCertificate(leaf);
  assert.equal(certificate.serial, "0e");
  assert.deepEqual(certificate.sanUris, [uri]);
  assert.ok(isEmptyName(certificate.issuer) && isEmptyName(certificate.subject));
  assert.equal(certificate.notBeforeMs, Date.parse("2026-11-21T03:23:37Z"));
  assert.equal(certificate.notAfterMs, Date.parse("2026-11-24T03:23:37Z"));
  assert.deepEqual(certificate.basicConstraints, { ca: false });
  assert.deepEqual(certificate.extendedKeyUsage, [OID.clientAuth, OID.serverAuth]);
  assert.equal(allowsKeyUsage(certificate, "keyAgreement"), true);
  assert.equal(allowsKeyUsage(certificate, "keyCertSign"), false);
  assert.match(certificate.authorityKeyId ?? "", /^3f526f1f/);
  assert.match(certificate.subjectKeyId ?? "", /^20f1bdab/);
  assert.deepEqual(certificate.notUnderstood, []);
  assert.deepEqual(certificate.scheme, { kind: "ecdsa", hash: "sha256" });
  assert.deepEqual(certificate.key, { kind: "ec", curve: OID.curveP256 });
});

test("parseCertificate() reads a path length", () => {
  const [, , intermediate] = [undefined, ...recordedLeaf("leaf_secondary_rotated").presented];
  assert.ok(intermediate);
  assert.deepEqual(parseCertificate(intermediate).basicConstraints, { ca: true, pathLength: 0 });
});

test("parseCertificate() reads an RSA root", () => {
  const root = recordedRoots("roots_rsa").roots.find(({ key }) => key.kind === "rsa");
  assert.ok(root);
  assert.deepEqual(root.key, { kind: "rsa", bits: 2048, exponentBits: 17 });
  assert.deepEqual(root.scheme, { kind: "rsa", hash: "sha256" });
  assert.ok(isSignedBy(root, root));
});

test("fingerprintOf() is the id that Consul gives a root", () => {
  for (const name of ["roots", "roots_rsa", "roots_secondary_rotated", "roots_peer_cluster"]) {
    const { roots, ids } = recordedRoots(name);
    assert.deepEqual(roots.map(fingerprintOf), ids);
  }
});

test("parseCertificate() keeps its own copy of the bytes", () => {
  const der = minted();
  const certificate = parseCertificate(der);
  der.fill(0);
  assert.ok(isSignedBy(certificate, parseCertificate(CA.rootDer)));
});

test("parseCertificate() writes serials as Consul does", () => {
  const serial = (bytes: number[]) =>
    parseCertificate(minted({ serial: Uint8Array.from(bytes) })).serial;
  assert.equal(serial([0]), "00");
  assert.equal(serial([0x0e]), "0e");
  assert.equal(serial([0x1f, 0x03]), "1f:03");
  assert.equal(serial([0x80, 0x00]), "80:00");
});

test("parseCertificate() distinguishes DNS names from URIs", () => {
  const certificate = parseCertificate(minted({ dnsNames: ["web.example"] }));
  assert.equal(certificate.sanUris.length, 1);
});

for (
  const [name, extension] of [
    ["a repeated extension", {
      oid: OID.keyUsage,
      critical: true,
      value: derElement(3, Uint8Array.of(7, 0x80)),
    }],
    ["empty alternative names", { oid: OID.subjectAltName, critical: true, value: derSequence() }],
    ["a URI with NUL", {
      oid: OID.subjectAltName,
      critical: true,
      value: derSequence(derElement(contextTag(6, "primitive"), Uint8Array.of(0x61, 0))),
    }],
    ["a name of an unknown type", {
      oid: OID.subjectAltName,
      critical: true,
      value: derSequence(derText(contextTag(9, "primitive"), "x")),
    }],
    ["more than 100 names", {
      oid: OID.subjectAltName,
      critical: true,
      value: derSequence(
        ...Array.from({ length: 101 }, () => derText(contextTag(2, "primitive"), "x")),
      ),
    }],
    ["a path length without CA", {
      oid: OID.basicConstraints,
      critical: true,
      value: derSequence(derNumber(0)),
    }],
    ["trailing bytes in an extension", {
      oid: OID.basicConstraints,
      critical: true,
      value: Uint8Array.of(0x30, 0, 0),
    }],
    ["an empty extended key usage", {
      oid: OID.extendedKeyUsage,
      critical: false,
      value: derSequence(),
    }],
    ["a key usage of three bytes", {
      oid: OID.keyUsage,
      critical: true,
      value: derBits(Uint8Array.of(1, 2, 3)),
    }],
  ] as const
) {
  test(`parseCertificate() refuses ${name}`, () => {
    // The certificate has only the tested extension, except for the repeated one.
    const der = name === "a repeated extension"
      ? minted({ extensions: [extension] })
      : rebuilt([derSequence(
        derOid(extension.oid),
        ...extension.critical ? [derBoolean(true)] : [],
        derOctets(extension.value),
      )]);
    assertInvalid(der);
  });
}

test("parseCertificate() refuses trailing bytes behind the value of an extension", () => {
  const known = [derOid("1.2.3"), derOctets(new Uint8Array())];
  parseCertificate(rebuilt([derSequence(...known)]));
  assertInvalid(rebuilt([derSequence(...known, derNumber(0))]));
});

test("parseCertificate() refuses more than 40 extensions", () => {
  const extensions = Array.from(
    { length: 41 },
    (_, index) => derSequence(derOid(`1.2.3.${index}`), derOctets(new Uint8Array())),
  );
  assertInvalid(rebuilt(extensions));
  parseCertificate(rebuilt(extensions.slice(1)));
});

test("parseCertificate() refuses a certificate above its limit", () => {
  assertInvalid(new Uint8Array(CERTIFICATE_LIMIT_BYTES + 1));
});

test("parseCertificate() refuses every prefix and every extension of a certificate", () => {
  const der = minted();
  for (let length = 0; length < der.length; length++) assertInvalid(der.subarray(0, length));
  assertInvalid(Uint8Array.from([...der, 0]));
});

for (
  const [name, der, want] of [
    // The exceptions are names, the rest of an authority key id, and the signature.
    ["a leaf", minted(), ["0.3", "0.3.0", "0.3.0.0", "0.7.0.4.1.0", "2", "2.0"]],
    ["an RSA key", recordedRoots("roots_rsa").roots[0]?.raw ?? minted(), [
      "0.3",
      "0.3.0",
      "0.3.0.0",
      "0.5",
      "0.5.0",
      "0.5.0.0",
      "0.7.0.3.1.0",
    ]],
  ] as const
) {
  test(`parseCertificate() of ${name} refuses trailing bytes wherever they mean something`, () => {
    const taken = withTrailing(der).filter(({ der }) => {
      try {
        return parseCertificate(der);
      } catch (error) {
        assert.ok(error instanceof ProxyError && error.code === "identity_invalid");
        return false;
      }
    });
    assert.deepEqual(taken.map(({ path }) => path), want);
  });
}

test("parseCertificate() refuses signature algorithms that differ", () => {
  const parts = new DerReader(minted()).enter(TAG.sequence, "certificate");
  const tbs = parts.any("tbs").raw;
  parts.any("algorithm");
  const other = derSequence(derOid(OID.ecdsaSha384));
  assertInvalid(derSequence(tbs, other, parts.any("signature").raw));
});

test("isSignedBy() refuses every certificate with one bit changed", () => {
  const root = parseCertificate(CA.rootDer);
  const der = minted();
  for (let index = 0; index < der.length; index++) {
    const changed = Uint8Array.from(der);
    changed[index] = (changed[index] ?? 0) ^ 1 << index % 8;
    let accepted: boolean;
    try {
      accepted = isSignedBy(parseCertificate(changed), root);
    } catch (error) {
      assert.ok(error instanceof ProxyError && error.code === "identity_invalid");
      continue;
    }
    assert.ok(!accepted, `byte ${index}`);
  }
});

test("isSignedBy() refuses a second encoding of the same signature", () => {
  const root = parseCertificate(CA.rootDer);
  const certificate = parseCertificate(minted());
  assert.ok(isSignedBy(certificate, root));
  const numbers = new DerReader(certificate.signature).enter(TAG.sequence, "signature");
  const [r, s] = [numbers.any("r"), numbers.any("s")];
  const padded = derSequence(derElement(2, Uint8Array.of(0), r.body), s.raw);
  const trailing = Uint8Array.from([...certificate.signature, 0]);
  for (const signature of [padded, trailing]) {
    assert.ok(!isSignedBy({ ...certificate, signature }, root));
  }
  const scheme = { kind: "unsupported", oid: OID.ecdsaSha256 } as const;
  assert.ok(!isSignedBy({ ...certificate, scheme }, root));
});

test("isSignedBy() accepts RSA-PSS only with matching hashes and salt length", () => {
  const rsa = createAuthority({ nowMs: NOW_MS, keyKind: "rsa-2048" });
  const root = parseCertificate(rsa.rootDer);
  for (
    const [saltLength, stated, want] of [[32, 32, true], [20, 20, false], [20, 32, false]] as const
  ) {
    const identifier = pssIdentifier(stated);
    const certificate = new DerReader(minted()).enter(TAG.sequence, "certificate");
    const fields = certificate.enter(TAG.sequence, "tbs");
    const parts: Uint8Array[] = [];
    while (!fields.done) parts.push(fields.any("field").raw);
    parts[2] = identifier;
    const tbs = derSequence(...parts);
    const padding = constants.RSA_PKCS1_PSS_PADDING;
    const key = { key: rsa.key.privateKey, padding, saltLength };
    const signature = derBits(new Uint8Array(sign("sha256", tbs, key)));
    const child = parseCertificate(derSequence(tbs, identifier, signature));
    assert.equal(isSignedBy(child, root), want, `salt ${saltLength}`);
  }
});

test("keyFault() refuses short RSA keys, odd exponents and other curves", () => {
  const certificate = parseCertificate(minted());
  for (
    const key of [
      { kind: "rsa", bits: 1024, exponentBits: 17 },
      { kind: "rsa", bits: 16_384, exponentBits: 17 },
      { kind: "rsa", bits: 2048, exponentBits: 1 },
      { kind: "rsa", bits: 2048, exponentBits: 64 },
      { kind: "ec", curve: "1.3.132.0.10" },
      { kind: "unsupported", oid: "1.2.3" },
    ] as const
  ) {
    assert.ok(keyFault({ ...certificate, key }));
    assert.equal(isSignedBy(certificate, { ...parseCertificate(CA.rootDer), key }), false);
  }
});

function pssIdentifier(saltLength: number): Uint8Array {
  const hash = derSequence(derOid(OID.sha256), derElement(TAG.null));
  return derSequence(
    derOid(OID.rsaPss),
    derSequence(
      derElement(contextTag(0, "constructed"), hash),
      derElement(contextTag(1, "constructed"), derSequence(derOid(OID.mgf1), hash)),
      derElement(contextTag(2, "constructed"), derNumber(saltLength)),
    ),
  );
}

/** A certificate with exactly these extensions; its signature is invalid. */
function rebuilt(extensions: readonly Uint8Array[]): Uint8Array {
  const parts = new DerReader(minted()).enter(TAG.sequence, "certificate");
  const fields = parts.enter(TAG.sequence, "tbs");
  const kept: Uint8Array[] = [];
  while (!fields.done) kept.push(fields.any("field").raw);
  kept[kept.length - 1] = derElement(contextTag(3, "constructed"), derSequence(...extensions));
  return derSequence(derSequence(...kept), parts.any("algorithm").raw, parts.any("signature").raw);
}

function assertInvalid(der: Uint8Array): void {
  assert.throws(() => parseCertificate(der), (error) => {
    return error instanceof ProxyError && error.code === "identity_invalid";
  });
}

test("issueLeaf() makes the same leaf as a real Consul", () => {
  const ours = parseCertificate(minted());
  const theirs = parseCertificate(recordedLeaf("leaf").leaf);
  for (
    const field of ["basicConstraints", "keyUsage", "extendedKeyUsage", "scheme", "key"] as const
  ) {
    assert.deepEqual(ours[field], theirs[field], field);
  }
  assert.deepEqual(ours.sanUris, [`spiffe://${TRUST_DOMAIN}/ns/default/dc/dc1/svc/web`]);
  assert.equal(ours.notAfterMs - ours.notBeforeMs, theirs.notAfterMs - theirs.notBeforeMs);
  assert.equal(ours.subjectKeyId?.length, theirs.subjectKeyId?.length);
});
