import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import test from "node:test";
import { createAuthority } from "../../test/kit/certs/certificates.ts";
import { ProxyError } from "../base/mod.ts";
import { formatPem, parsePem } from "../wire/mod.ts";
import type { CertificateOverrides } from "../../test/kit/certs/authority.ts";
import { parseCertificate } from "./certificate.ts";
import { type PairInput, validateCertificatePair } from "./credentials.ts";
import { generateKey, type KeyKind } from "../../test/kit/certs/mint.ts";

const NOW_MS = Date.UTC(2026, 10, 21, 12);
const CA = createAuthority({ nowMs: NOW_MS });
const KEY = generateKey();

function leafWith(overrides: CertificateOverrides = {}, authority = CA) {
  return authority.issueLeaf({ service: "web", key: KEY, overrides });
}

function validate(input: Partial<PairInput> & { certPem: string }) {
  return validateCertificatePair({ keyPem: leafWith().keyPem, nowMs: NOW_MS, ...input });
}

const pemOf = (der: Uint8Array) => formatPem("CERTIFICATE", der);

test("validateCertificatePair() returns the fields of a secret", () => {
  const issued = leafWith({ dnsNames: ["Web.Example", "*.Web.example", "web.example"] });
  const pair = validate({ certPem: issued.certPem });
  const { keyPem, ...rest } = pair;
  assert.deepEqual(rest, {
    certPem: issued.certPem,
    keyKind: "ecdsa",
    dnsNames: ["web.example", "*.web.example"],
    uris: [issued.uri],
    serial: parseCertificate(issued.certDer).serial,
    notBeforeMs: issued.notBeforeMs,
    notAfterMs: issued.notAfterMs,
  });
  assert.match(keyPem, /^-----BEGIN PRIVATE KEY-----\n/);
});

for (
  const [name, overrides, dnsNames] of [
    ["the common name where there is no other", { subject: "Web.Example" }, ["web.example"]],
    ["a wildcard as common name", { subject: "*.example" }, ["*.example"]],
    ["no common name that is not a DNS name", { subject: "The Web" }, []],
    [
      "no common name beside a DNS name",
      { subject: "cn.example", dnsNames: ["san.example"] },
      ["san.example"],
    ],
    ["no name with NUL in it", { dnsNames: ["a.example\u0000.b"] }, []],
  ] as const satisfies readonly (readonly [string, CertificateOverrides, readonly string[]])[]
) {
  test(`validateCertificatePair() returns ${name}`, () => {
    assert.deepEqual(validate({ certPem: leafWith(overrides).certPem }).dnsNames, dnsNames);
  });
}

for (const keyKind of ["ec-p256", "ec-p384", "ec-p521", "rsa-2048", "ed25519"] as const) {
  for (const type of ["pkcs8", "sec1", "pkcs1"] as const) {
    if (type === "sec1" && !keyKind.startsWith("ec-")) continue;
    if (type === "pkcs1" && !keyKind.startsWith("rsa-")) continue;
    test(`validateCertificatePair() accepts a ${keyKind} key as ${type}`, () => {
      const key = generateKey(keyKind satisfies KeyKind);
      const issued = CA.issueLeaf({ service: "web", key });
      const keyPem = key.privateKey.export({ type, format: "pem" }).toString();
      const pair = validate({ certPem: issued.certPem, keyPem });
      const kind = keyKind.startsWith("ec-") ? "ecdsa" : keyKind === "ed25519" ? "ed25519" : "rsa";
      assert.equal(pair.keyKind, kind);
      const [block] = parsePem(pair.keyPem, { what: "key" });
      assert.equal(block?.label, "PRIVATE KEY");
    });
  }
}

test("validateCertificatePair() orders the chain, whatever the order of the file", () => {
  const above = CA.intermediate({ overrides: { ca: {} } }).intermediate({ overrides: { ca: {} } });
  const issued = leafWith({}, above.intermediate());
  const ders = [issued.certDer, ...issued.chainDer];
  const [a, b, c, d] = ders.map(pemOf);
  for (
    const pems of [
      [a, b, c, d],
      [a, b, d, c],
      [d, c, b, a],
      [b, a, d, c],
      [d, a, b, c],
      [c, d, a, b],
    ]
  ) {
    assert.equal(validate({ certPem: pems.join("") }).certPem, issued.certPem);
  }
});

test("validateCertificatePair() reads one text with certificate and key", () => {
  const { certPem, keyPem } = leafWith();
  const both = `${keyPem}\nsome words\n${certPem}`;
  assert.equal(validate({ certPem: both, keyPem: both }).certPem, certPem);
});

const STRANGER_KEY = generateKey().privateKey.export({ type: "pkcs8", format: "pem" }).toString();
const SHORT = generateKeyPairSync("rsa", { modulusLength: 1024 });
const WEAK = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n";

for (
  const [name, input, reason] of [
    ["nothing", { certPem: "" }, /no CERTIFICATE block/],
    ["a short RSA key", {
      certPem: leafWith({ publicKey: SHORT.publicKey }).certPem,
      keyPem: SHORT.privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    }, /RSA key of 1024 bits/],
    ["no key", { certPem: leafWith().certPem, keyPem: "" }, /no PRIVATE KEY block/],
    ["two keys", {
      certPem: leafWith().certPem,
      keyPem: STRANGER_KEY + STRANGER_KEY,
    }, /more than one PRIVATE KEY/],
    ["a broken key", { certPem: leafWith().certPem, keyPem: WEAK }, /not a private key/],
    ["another's key", { certPem: leafWith().certPem, keyPem: STRANGER_KEY }, /does not belong/],
    ["a broken certificate", { certPem: pemOf(Uint8Array.of(0x30, 0)) }, /Cannot read certificate/],
    [
      "an expired leaf",
      { certPem: leafWith({ notAfterMs: NOW_MS - 1000 }).certPem },
      /it expired at/,
    ],
    [
      "a leaf that is not valid yet",
      { certPem: leafWith({ notBeforeMs: NOW_MS + 1000 }).certPem },
      /not valid before/,
    ],
    ["a leaf without digitalSignature", {
      certPem: leafWith({ keyUsage: ["keyEncipherment"] }).certPem,
    }, /lacks digitalSignature/],
    ["too many certificates", {
      certPem: [leafWith(), ...Array.from({ length: 11 }, () => leafWith())]
        .map(({ certDer }) => pemOf(certDer)).join(""),
    }, /11 certificates follow/],
    ["an encrypted key", {
      certPem: leafWith().certPem,
      keyPem: KEY.privateKey.export({
        type: "pkcs8",
        format: "pem",
        cipher: "aes-256-cbc",
        passphrase: "secret",
      }).toString(),
    }, /is encrypted/],
  ] as const
) {
  test(`validateCertificatePair() refuses ${name}`, () => {
    assert.throws(() => validate(input), (error) => {
      assert.ok(error instanceof ProxyError);
      assert.equal(error.code, "credentials_invalid");
      assert.match(error.message, reason);
      return true;
    });
  });
}
