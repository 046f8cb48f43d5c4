/**
 * An X.509 certificate as values: all that our verdict on a chain needs, without a decision. Total: any
 * bytes give a certificate or a ProxyError `identity_invalid`. Extensions are read in `extensions.ts`.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import {
  bitStringOf,
  contextTag,
  type DerElement,
  DerReader,
  integerOf,
  oidOf,
  smallIntegerOf,
  TAG,
  timeOf,
} from "../wire/mod.ts";
import { type Extensions, fail, readExtensions } from "./extensions.ts";
import { KEY_USAGE_BIT, type KeyUsage, OID, PURPOSE, type Usage } from "./oids.ts";
import { schemeOf, type SignatureScheme } from "./signature_scheme.ts";

/** A Consul certificate has 500 to 1,500 bytes. */
export const CERTIFICATE_LIMIT_BYTES = 16 * 1024;

type PublicKeyKind =
  | { readonly kind: "ec"; readonly curve: string }
  | { readonly kind: "rsa"; readonly bits: number; readonly exponentBits: number }
  | { readonly kind: "ed25519" }
  | { readonly kind: "unsupported"; readonly oid: string };

export interface Certificate extends Extensions {
  readonly raw: Uint8Array;
  /** The signed part. */
  readonly tbs: Uint8Array;
  readonly scheme: SignatureScheme;
  readonly signature: Uint8Array;
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
  const parts = outer.inside(whole);
  const tbs = parts.read(TAG.sequence, "signed part");
  const algorithm = parts.read(TAG.sequence, "signature algorithm");
  const signature = bitStringOf(parts.read(TAG.bitString, "signature"), "signature");
  parts.end("certificate");
  if (signature.unusedBits !== 0) return fail("signature is not whole bytes");

  const fields = parts.inside(tbs);
  const version = fields.enter(contextTag(0, "constructed"), "version");
  if (smallIntegerOf(version.read(TAG.integer, "version"), "version") !== 2) {
    return fail("it is not version 3");
  }
  version.end("version");
  const serial = serialOf(fields.read(TAG.integer, "serial number"));
  const inner = fields.read(TAG.sequence, "signature algorithm");
  // RFC 5280 4.1.1.2: the unsigned copy must equal the signed one.
  if (!sameBytes(inner.raw, algorithm.raw)) return fail("its signature algorithms differ");
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
    tbs: tbs.raw,
    scheme: schemeOf(parts.inside(algorithm)),
    signature: signature.bytes,
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

/** A name without attributes, such as that of a secondary datacenter's intermediate. */
export function isEmptyName(name: Uint8Array): boolean {
  return name.length === 2;
}

/** `undefined`: the certificate has no key usage extension, which allows every use. */
export function allowsKeyUsage(certificate: Certificate, usage: KeyUsage): boolean | undefined {
  if (certificate.keyUsage === undefined) return undefined;
  return (certificate.keyUsage & (1 << KEY_USAGE_BIT[usage])) !== 0;
}

/** Whether the extended key usage, if there is one, allows a purpose. */
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

function keyKindOf(info: DerReader): PublicKeyKind {
  const algorithm = info.enter(TAG.sequence, "public key algorithm");
  const oid = oidOf(algorithm.read(TAG.oid, "public key algorithm"), "public key algorithm");
  const parameters = algorithm.done ? undefined : algorithm.any("public key parameters");
  algorithm.end("public key algorithm");
  const bits = bitStringOf(info.read(TAG.bitString, "public key"), "public key");
  info.end("public key");
  switch (oid) {
    case OID.ecPublicKey:
      // Explicit curve parameters are refused: a forger can choose them (CVE-2020-0601).
      return parameters?.tag === TAG.oid
        ? { kind: "ec", curve: oidOf(parameters, "curve") }
        : { kind: "unsupported", oid };
    case OID.rsaEncryption: {
      const whole = new DerReader(bits.bytes);
      const numbers = whole.enter(TAG.sequence, "RSA key");
      const modulus = integerOf(numbers.read(TAG.integer, "RSA modulus"), "RSA modulus", 2049);
      const exponent = integerOf(numbers.read(TAG.integer, "RSA exponent"), "RSA exponent", 64);
      numbers.end("RSA key");
      whole.end("RSA key");
      return { kind: "rsa", bits: bitLength(modulus), exponentBits: bitLength(exponent) };
    }
    case OID.ed25519:
      return { kind: "ed25519" };
    default:
      return { kind: "unsupported", oid };
  }
}

/** The bits of a big-endian integer; 0 for a negative one. */
function bitLength(bytes: Uint8Array): number {
  if ((bytes[0] ?? 0) >= 0x80) return 0;
  const first = bytes.findIndex((byte) => byte !== 0);
  if (first < 0) return 0;
  return (bytes.length - first) * 8 - Math.clz32(bytes[first] ?? 0) + 24;
}
