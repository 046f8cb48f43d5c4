/** Makes X.509 certificates as Consul's built-in CA does. @module */

import { createHash, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { KEY_USAGE_BIT, type KeyUsage, OID, spkiOf } from "../../identity/mod.ts";
import {
  contextTag,
  derBits,
  derBoolean,
  derElement,
  derNamedBits,
  derNumber,
  derOctets,
  derOid,
  derSequence,
  derText,
  derTime,
  derUnsigned,
  TAG,
} from "../../wire/mod.ts";

export type KeyKind = "ec-p256" | "ec-p384" | "rsa-2048";

export interface KeyPair {
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
}

export interface Issuer {
  /** Its common name. */
  readonly name: string;
  readonly key: KeyPair;
}

export interface CertificateTerms {
  readonly issuer: Issuer;
  readonly publicKey: KeyObject;
  /** A common name; `""`: the empty name. */
  readonly subject: string;
  readonly uri: string;
  readonly serial: Uint8Array;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  readonly isCa: boolean;
}

const CA_USAGE: readonly KeyUsage[] = ["digitalSignature", "keyCertSign", "cRLSign"];
const LEAF_USAGE: readonly KeyUsage[] = [
  "digitalSignature",
  "keyEncipherment",
  "dataEncipherment",
  "keyAgreement",
];

export function generateKey(kind: KeyKind): KeyPair {
  if (kind === "rsa-2048") return generateKeyPairSync("rsa", { modulusLength: 2048 });
  return generateKeyPairSync("ec", { namedCurve: kind === "ec-p384" ? "P-384" : "P-256" });
}

/** The key id that Consul uses: SHA-256 of the public key's DER. */
export function keyIdOf(publicKey: KeyObject): Uint8Array {
  return new Uint8Array(createHash("sha256").update(spkiOf(publicKey)).digest());
}

/** DER of a signed certificate, version 3. */
export function signCertificate(facts: CertificateTerms): Uint8Array {
  const { issuer, publicKey, subject, notBeforeMs, notAfterMs } = facts;
  const { hash, identifier } = schemeOf(issuer.key.privateKey);
  const tbs = derSequence(
    derElement(contextTag(0, "constructed"), derNumber(2)),
    derUnsigned(facts.serial),
    identifier,
    nameOf(issuer.name),
    derSequence(derTime(notBeforeMs), derTime(notAfterMs)),
    nameOf(subject),
    spkiOf(publicKey),
    derElement(contextTag(3, "constructed"), derSequence(...extensionsOf(facts))),
  );
  const signature = new Uint8Array(sign(hash, tbs, issuer.key.privateKey));
  return derSequence(tbs, identifier, derBits(signature));
}

function schemeOf(key: KeyObject): { readonly hash: string; readonly identifier: Uint8Array } {
  if (key.asymmetricKeyType === "rsa") {
    return { hash: "sha256", identifier: derSequence(derOid(OID.rsaSha256), derElement(TAG.null)) };
  }
  const isP384 = key.asymmetricKeyDetails?.namedCurve === "secp384r1";
  const oid = isP384 ? OID.ecdsaSha384 : OID.ecdsaSha256;
  return { hash: isP384 ? "sha384" : "sha256", identifier: derSequence(derOid(oid)) };
}

function extensionsOf({ issuer, publicKey, subject, uri, isCa }: CertificateTerms): Uint8Array[] {
  const usage = isCa ? CA_USAGE : LEAF_USAGE;
  const purposes = isCa ? [] : [
    extension(
      OID.extendedKeyUsage,
      false,
      derSequence(derOid(OID.clientAuth), derOid(OID.serverAuth)),
    ),
  ];
  const authority = derElement(contextTag(0, "primitive"), keyIdOf(issuer.key.publicKey));
  const names = derSequence(derText(contextTag(6, "primitive"), uri));
  return [
    extension(OID.keyUsage, true, derNamedBits(usage.map((name) => KEY_USAGE_BIT[name]))),
    ...purposes,
    extension(OID.basicConstraints, true, isCa ? derSequence(derBoolean(true)) : derSequence()),
    extension(OID.subjectKeyId, false, derOctets(keyIdOf(publicKey))),
    extension(OID.authorityKeyId, false, derSequence(authority)),
    // Critical where there is no other name (RFC 5280 4.2.1.6).
    extension(OID.subjectAltName, subject === "", names),
  ];
}

function extension(oid: string, isCritical: boolean, value: Uint8Array): Uint8Array {
  return derSequence(derOid(oid), ...isCritical ? [derBoolean(true)] : [], derOctets(value));
}

function nameOf(commonName: string): Uint8Array {
  if (commonName === "") return derSequence();
  const attribute = derSequence(derOid(OID.commonName), derText(TAG.utf8String, commonName));
  return derSequence(derElement(TAG.set, attribute));
}
