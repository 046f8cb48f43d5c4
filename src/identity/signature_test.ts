import assert from "node:assert/strict";
import { test } from "node:test";
import { derElement, derNumber, derOid, derSequence } from "../wire/der_writer.ts";
import { contextTag, DerReader, TAG } from "../wire/mod.ts";
import { OID } from "./oids.ts";
import { schemeOf } from "./signature.ts";

const NULL = derElement(TAG.null);
const SHA1 = "1.3.14.3.2.26";
const part = (number: number, ...inside: Uint8Array[]) =>
  derElement(contextTag(number, "constructed"), ...inside);
const hash = (oid: string) => part(0, derSequence(derOid(oid), NULL));
const mask = (oid: string, hashOid: string) =>
  part(1, derSequence(derOid(oid), derSequence(derOid(hashOid), NULL)));
const salt = (bytes: number) => part(2, derNumber(bytes));
const pss = (...parts: Uint8Array[]) => [derOid(OID.rsaPss), derSequence(...parts)];
const SANE = [hash(OID.sha256), mask(OID.mgf1, OID.sha256), salt(32)] as const;

for (
  const [name, parts, want] of [
    ["ECDSA", [derOid(OID.ecdsaSha256)], "ecdsa sha256"],
    ["ECDSA with parameters", [derOid(OID.ecdsaSha256), NULL], "unsupported"],
    ["Ed25519", [derOid(OID.ed25519)], "ed25519"],
    ["Ed25519 with parameters", [derOid(OID.ed25519), NULL], "unsupported"],
    ["RSA", [derOid(OID.rsaSha384), NULL], "rsa sha384"],
    ["RSA without parameters", [derOid(OID.rsaSha512)], "rsa sha512"],
    ["RSA with others", [derOid(OID.rsaSha256), derNumber(1)], "unsupported"],
    ["RSA with a NULL of one byte", [
      derOid(OID.rsaSha256),
      derElement(TAG.null, Uint8Array.of(0)),
    ], "unsupported"],
    ["an unknown algorithm", [derOid("1.2.3")], "unsupported"],
    ["PSS with SHA-256", pss(...SANE), "rsa_pss sha256"],
    [
      "PSS with SHA-384",
      pss(hash(OID.sha384), mask(OID.mgf1, OID.sha384), salt(48)),
      "rsa_pss sha384",
    ],
    [
      "PSS with SHA-512",
      pss(hash(OID.sha512), mask(OID.mgf1, OID.sha512), salt(64)),
      "rsa_pss sha512",
    ],
    ["PSS without parameters", [derOid(OID.rsaPss)], "unsupported"],
    ["PSS with the default SHA-1", pss(), "unsupported"],
    ["PSS without a hash", pss(...SANE.slice(1)), "unsupported"],
    ["PSS without a mask", pss(SANE[0], SANE[2]), "unsupported"],
    ["PSS without a salt", pss(...SANE.slice(0, 2)), "unsupported"],
    ["PSS with something behind", pss(...SANE, part(3, derNumber(1))), "unsupported"],
    ["PSS with SHA-1", pss(hash(SHA1), mask(OID.mgf1, SHA1), salt(20)), "unsupported"],
    ["PSS with another mask", pss(SANE[0], mask("1.2.3", OID.sha256), SANE[2]), "unsupported"],
    ["PSS with two hashes", pss(SANE[0], mask(OID.mgf1, OID.sha384), SANE[2]), "unsupported"],
    ["PSS with a short salt", pss(...SANE.slice(0, 2), salt(20)), "unsupported"],
  ] as const satisfies readonly (readonly [string, readonly Uint8Array[], string])[]
) {
  test(`schemeOf() ${name} is ${want}`, () => {
    const scheme = schemeOf(new DerReader(derSequence(...parts)).enter(TAG.sequence, "algorithm"));
    assert.equal("hash" in scheme ? `${scheme.kind} ${scheme.hash}` : scheme.kind, want);
  });
}

test("schemeOf() refuses trailing bytes", () => {
  const whole = derSequence(derOid(OID.rsaSha256), NULL, NULL);
  const inside = new DerReader(whole).enter(TAG.sequence, "algorithm");
  assert.throws(() => schemeOf(inside), /trailing bytes/);
});
