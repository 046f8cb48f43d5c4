/** Public keys and signatures. Weak keys and hashes are refused before any arithmetic. @module */

import { Buffer } from "node:buffer";
import { constants, createPublicKey, verify } from "node:crypto";
import { ProxyError } from "../base/mod.ts";
import {
  bitStringOf,
  contextTag,
  DerReader,
  integerOf,
  oidOf,
  smallIntegerOf,
  TAG,
} from "../wire/mod.ts";
import { OID } from "./oids.ts";

export interface Signed {
  /** The signed part. */
  readonly tbs: Uint8Array;
  readonly scheme: SignatureScheme;
  readonly signature: Uint8Array;
}

interface Verifier {
  /** DER of SubjectPublicKeyInfo. */
  readonly spki: Uint8Array;
  readonly key: PublicKeyKind;
}

export type PublicKeyKind =
  | { readonly kind: "ec"; readonly curve: string }
  | { readonly kind: "rsa"; readonly bits: number; readonly exponentBits: number }
  | { readonly kind: "ed25519" }
  | { readonly kind: "unsupported"; readonly oid: string };

/** `unsupported` has the algorithms that are refused, with MD5 and SHA-1. */
type SignatureScheme =
  | { readonly kind: "ecdsa" | "rsa" | "rsa_pss"; readonly hash: "sha256" | "sha384" | "sha512" }
  | { readonly kind: "ed25519" }
  | { readonly kind: "unsupported"; readonly oid: string };

const SCHEMES: Readonly<Record<string, SignatureScheme>> = {
  [OID.ecdsaSha256]: { kind: "ecdsa", hash: "sha256" },
  [OID.ecdsaSha384]: { kind: "ecdsa", hash: "sha384" },
  [OID.ecdsaSha512]: { kind: "ecdsa", hash: "sha512" },
  [OID.rsaSha256]: { kind: "rsa", hash: "sha256" },
  [OID.rsaSha384]: { kind: "rsa", hash: "sha384" },
  [OID.rsaSha512]: { kind: "rsa", hash: "sha512" },
  [OID.ed25519]: { kind: "ed25519" },
};

/** Reads the content of an AlgorithmIdentifier. */
export function schemeOf(algorithm: DerReader): SignatureScheme {
  const oid = oidOf(algorithm.read(TAG.oid, "signature algorithm"), "signature algorithm");
  const parameters = algorithm.done ? undefined : algorithm.any("signature parameters");
  algorithm.end("signature algorithm");
  if (oid === OID.rsaPss) return pssSchemeOf(parameters && algorithm.inside(parameters));
  const scheme = SCHEMES[oid] ?? { kind: "unsupported", oid };
  // RSA has NULL or nothing, the others nothing (RFC 5758 3.2, RFC 8410 3).
  const fitting = parameters === undefined ||
    (scheme.kind === "rsa" && parameters.tag === TAG.null && parameters.body.length === 0);
  return fitting ? scheme : { kind: "unsupported", oid };
}

/** Only one hash for both uses, with a salt as long as the hash, is supported (RFC 4055 3.1). */
function pssSchemeOf(parameters: DerReader | undefined): SignatureScheme {
  const hashes = {
    [OID.sha256]: { hash: "sha256", saltLength: 32 },
    [OID.sha384]: { hash: "sha384", saltLength: 48 },
    [OID.sha512]: { hash: "sha512", saltLength: 64 },
  } as const;
  const unsupported = { kind: "unsupported", oid: OID.rsaPss } as const;
  const hashPart = parameters?.optional(contextTag(0, "constructed"), "PSS hash");
  const maskPart = parameters?.optional(contextTag(1, "constructed"), "PSS mask");
  const saltPart = parameters?.optional(contextTag(2, "constructed"), "PSS salt");
  if (!parameters?.done || !hashPart || !maskPart || !saltPart) return unsupported;
  const hashOid = algorithmOid(parameters.inside(hashPart));
  const mask = parameters.inside(maskPart).enter(TAG.sequence, "PSS mask");
  const maskOid = oidOf(mask.read(TAG.oid, "PSS mask"), "PSS mask");
  const maskHashOid = algorithmOid(mask);
  const salt = parameters.inside(saltPart).read(TAG.integer, "PSS salt");
  const known = hashes[hashOid as keyof typeof hashes];
  const sane = known !== undefined && maskOid === OID.mgf1 && maskHashOid === hashOid &&
    smallIntegerOf(salt, "PSS salt") === known.saltLength;
  return sane ? { kind: "rsa_pss", hash: known.hash } : unsupported;
}

function algorithmOid(reader: DerReader): string {
  return oidOf(reader.enter(TAG.sequence, "PSS hash").read(TAG.oid, "PSS hash"), "PSS hash");
}

/** Reads the content of a SubjectPublicKeyInfo. */
export function keyKindOf(info: DerReader): PublicKeyKind {
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

const RSA_BITS_MIN = 2048;
/** Larger keys only cost time. */
const RSA_BITS_MAX = 8192;
const RSA_EXPONENT_BITS_MAX = 33;
const CURVES: ReadonlySet<string> = new Set([OID.curveP256, OID.curveP384, OID.curveP521]);

/** Why a certificate's key may not be used, or `undefined`. */
export function keyFault({ key }: Pick<Verifier, "key">): string | undefined {
  switch (key.kind) {
    case "ec":
      return CURVES.has(key.curve) ? undefined : `has a key on an unsupported curve (${key.curve})`;
    case "rsa":
      if (key.bits < RSA_BITS_MIN || key.bits > RSA_BITS_MAX) {
        return `has an RSA key of ${key.bits} bits, not ${RSA_BITS_MIN} to ${RSA_BITS_MAX}`;
      }
      if (key.exponentBits < 2 || key.exponentBits > RSA_EXPONENT_BITS_MAX) {
        return "has an RSA key with an unreasonable exponent";
      }
      return undefined;
    case "ed25519":
      return undefined;
    case "unsupported":
      return `has an unsupported kind of key (${key.oid})`;
  }
}

/**
 * Whether `issuer`'s key made the signature of `signed`; never throws. Deno 2.9 cannot verify SHA-256
 * under a P-521 key, which Consul uses under such a root, and so refuses it; Bun can.
 */
export function isSignedBy(signed: Signed, issuer: Verifier): boolean {
  const { scheme, tbs, signature } = signed;
  if (keyFault(issuer) !== undefined) return false;
  try {
    const key = createPublicKey({ key: asBuffer(issuer.spki), format: "der", type: "spki" });
    switch (scheme.kind) {
      case "ecdsa":
        return issuer.key.kind === "ec" && isStrictEcdsa(signature) &&
          verify(scheme.hash, tbs, key, signature);
      case "rsa":
        return issuer.key.kind === "rsa" && verify(scheme.hash, tbs, key, signature);
      case "rsa_pss": {
        const padding = constants.RSA_PKCS1_PSS_PADDING;
        const saltLength = Number(scheme.hash.slice(3)) / 8;
        return issuer.key.kind === "rsa" &&
          verify(scheme.hash, tbs, { key, padding, saltLength }, signature);
      }
      case "ed25519":
        return issuer.key.kind === "ed25519" && verify(null, tbs, key, signature);
      case "unsupported":
        return false;
    }
  } catch {
    // The runtime throws for keys that it cannot load (a point off the curve) and sizes that it refuses.
    return false;
  }
}

/** Two positive minimal integers: a signature has only one valid encoding. */
function isStrictEcdsa(signature: Uint8Array): boolean {
  try {
    const whole = new DerReader(signature);
    const numbers = whole.enter(TAG.sequence, "signature");
    whole.end("signature");
    for (const what of ["r", "s"]) {
      const bytes = integerOf(numbers.read(TAG.integer, what), what, 67);
      if ((bytes[0] ?? 0) >= 0x80) return false;
    }
    numbers.end("signature");
    return true;
  } catch (error) {
    if (error instanceof ProxyError) return false;
    throw error;
  }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
