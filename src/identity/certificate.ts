/** An X.509 certificate as values. Any bytes give a certificate or `identity_invalid`. @module */

import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import {
  bitStringOf,
  contextTag,
  type DerElement,
  DerReader,
  integerOf,
  smallIntegerOf,
  TAG,
  timeOf,
} from "../wire/mod.ts";
import { type Extensions, fail, readExtensions } from "./extensions.ts";
import { KEY_USAGE_BIT, type KeyUsage, OID, PURPOSE, type Usage } from "./oids.ts";
import { keyKindOf, type PublicKeyKind, schemeOf, type Signed } from "./signature.ts";

/** A Consul certificate has 500 to 1,500 bytes. */
export const CERTIFICATE_LIMIT_BYTES = 16 * 1024;

export interface Certificate extends Extensions, Signed {
  readonly raw: Uint8Array;
  /** As Consul writes it: lower-case hex of the bytes, joined by colons (`0e`, `1f:03`). */
  readonly serial: string;
  /** DER of the names; {@link isEmptyName} finds one without attributes. */
  readonly issuer: Uint8Array;
  readonly subject: Uint8Array;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  /** DER of SubjectPublicKeyInfo. */
  readonly spki: Uint8Array;
  readonly key: PublicKeyKind;
}

/** The bytes are copied once, so they may come from a reused buffer. */
export function parseCertificate(der: Uint8Array): Certificate {
  if (der.length > CERTIFICATE_LIMIT_BYTES) {
    return fail(`it has ${der.length} bytes, more than ${CERTIFICATE_LIMIT_BYTES}`);
  }
  const outer = new DerReader(new Uint8Array(der));
  const whole = outer.read(TAG.sequence, "certificate");
  outer.end("certificate");
  const { signed, fields, algorithm } = readSigned(outer.inside(whole), "certificate");
  const version = fields.enter(contextTag(0, "constructed"), "version");
  if (smallIntegerOf(version.read(TAG.integer, "version"), "version") !== 2) {
    return fail("it is not version 3");
  }
  version.end("version");
  const serial = serialOf(fields.read(TAG.integer, "serial number"));
  checkAlgorithm(fields, algorithm);
  const issuer = fields.read(TAG.sequence, "issuer").raw;
  const validity = fields.enter(TAG.sequence, "validity");
  const notBeforeMs = timeOf(validity.any("start of validity"), "start of validity");
  const notAfterMs = timeOf(validity.any("end of validity"), "end of validity");
  validity.end("validity");
  const subject = fields.read(TAG.sequence, "subject").raw;
  const spki = fields.read(TAG.sequence, "public key");
  const key = keyKindOf(fields.inside(spki));
  const wrapped = fields.optional(contextTag(3, "constructed"), "extensions");
  fields.end("signed part");
  return {
    raw: whole.raw,
    ...signed,
    serial,
    issuer,
    subject,
    notBeforeMs,
    notAfterMs,
    spki: spki.raw,
    key,
    ...readExtensions(wrapped && fields.inside(wrapped)),
  };
}

/** The signature of a certificate or a revocation list, and the fields of its signed part. */
export function readSigned(
  parts: DerReader,
  what: string,
): { readonly signed: Signed; readonly fields: DerReader; readonly algorithm: Uint8Array } {
  const tbs = parts.read(TAG.sequence, "signed part");
  const algorithm = parts.read(TAG.sequence, "signature algorithm");
  const signature = bitStringOf(parts.read(TAG.bitString, "signature"), "signature");
  parts.end(what);
  if (signature.unusedBits !== 0) return fail("signature is not whole bytes");
  const scheme = schemeOf(parts.inside(algorithm));
  const signed: Signed = { tbs: tbs.raw, scheme, signature: signature.bytes };
  return { signed, fields: parts.inside(tbs), algorithm: algorithm.raw };
}

/** The unsigned copy must equal the signed one (RFC 5280 4.1.1.2, 5.1.1.2). */
export function checkAlgorithm(fields: DerReader, unsigned: Uint8Array): void {
  const { raw } = fields.read(TAG.sequence, "signature algorithm");
  if (!sameBytes(raw, unsigned)) fail("its signature algorithms differ");
}

/** A name without attributes, such as that of a secondary datacenter's intermediate. */
export function isEmptyName(name: Uint8Array): boolean {
  return name.length === 2;
}

/** `undefined`: the certificate has no key usage extension, which allows every use. */
export function allowsKeyUsage(certificate: Certificate, usage: KeyUsage): boolean | undefined {
  if (certificate.keyUsage === undefined) return undefined;
  return (certificate.keyUsage & (1 << KEY_USAGE_BIT[usage])) !== 0;
}

export function allowsPurpose({ extendedKeyUsage: usages }: Certificate, usage: Usage): boolean {
  return !usages || usages.includes(PURPOSE[usage]) || usages.includes(OID.anyExtendedKeyUsage);
}

/** Consul's id of a root: SHA-1 of its DER, hex joined by colons. For people; trust never rests on it. */
export function fingerprintOf(certificate: Certificate): string {
  return colonHex(createHash("sha1").update(certificate.raw).digest());
}

export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, index) => byte === b[index]);
}

function serialOf(element: DerElement): string {
  const bytes = integerOf(element, "serial number", 21);
  const [first = 0] = bytes;
  if (first >= 0x80) return fail("serial number is negative");
  return colonHex(bytes.length > 1 && first === 0 ? bytes.subarray(1) : bytes);
}

function colonHex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex").match(/../g)?.join(":") ?? "";
}
