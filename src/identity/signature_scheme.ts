/**
 * The signature algorithm of a certificate or a revocation list, as it is written there.
 *
 * @module
 */

import { contextTag, type DerReader, oidOf, smallIntegerOf, TAG } from "../wire/mod.ts";
import { OID } from "./oids.ts";

/** `unsupported` has the algorithms that are refused, with MD5 and SHA-1. */
export type SignatureScheme =
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
