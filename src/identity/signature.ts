/**
 * Checks the signature of a certificate or a revocation list. Weak keys, weak hashes and encodings other
 * than DER are refused before any arithmetic.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { constants, createPublicKey, verify } from "node:crypto";
import { ProxyError } from "../base/mod.ts";
import { DerReader, integerOf, TAG } from "../wire/mod.ts";
import type { Certificate } from "./certificate.ts";
import { OID } from "./oids.ts";

const RSA_BITS_MIN = 2048;
/** Larger keys only cost time. */
const RSA_BITS_MAX = 8192;
const RSA_EXPONENT_BITS_MAX = 33;
const CURVES: ReadonlySet<string> = new Set([OID.curveP256, OID.curveP384, OID.curveP521]);

/** A certificate or a revocation list. */
type Signed = Pick<Certificate, "scheme" | "tbs" | "signature">;

/** Why a certificate's key may not be used, or `undefined`. */
export function keyFault({ key }: Certificate): string | undefined {
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
export function isSignedBy(signed: Signed, issuer: Certificate): boolean {
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
