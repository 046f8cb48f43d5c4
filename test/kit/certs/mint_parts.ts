/** The DER parts that certificates and revocation lists share. @module */

import type { KeyObject } from "node:crypto";
import {
  derBoolean,
  derElement,
  derOctets,
  derOid,
  derSequence,
  derText,
} from "../../../src/wire/mod.ts";
import { TAG } from "../../../src/wire/mod.ts";
import { OID } from "../../../src/identity/mod.ts";

/** SHA-1 can be asked for, to be refused. */
export type SigningHash = "sha1" | "sha256" | "sha384" | "sha512";

/** An extension as encoded in a certificate. */
export interface ExtraExtension {
  readonly oid: string;
  readonly critical: boolean;
  /** DER of the value, without the octet string around it. */
  readonly value: Uint8Array;
}

/** DER of an extension. */
export function derExtension({ oid, critical, value }: ExtraExtension): Uint8Array {
  return derSequence(derOid(oid), ...critical ? [derBoolean(true)] : [], derOctets(value));
}

/** A name of one common name; `""` gives the empty name. */
export function derName(commonName: string): Uint8Array {
  if (commonName === "") return derSequence();
  const attribute = derSequence(derOid(OID.commonName), derText(TAG.utf8String, commonName));
  return derSequence(derElement(TAG.set, attribute));
}

/** How a key signs. */
interface SigningScheme {
  /** DER of the AlgorithmIdentifier. */
  readonly identifier: Uint8Array;
  readonly hash: string | null;
}

/** Absent: SHA-256, or what fits the signer's curve. */
export function signingSchemeOf(signer: KeyObject, asked?: SigningHash): SigningScheme {
  if (signer.asymmetricKeyType === "ed25519") {
    return { identifier: derSequence(derOid(OID.ed25519)), hash: null };
  }
  const rsa = signer.asymmetricKeyType === "rsa";
  const curve = signer.asymmetricKeyDetails?.namedCurve;
  const natural = curve === "secp521r1" ? "sha512" : curve === "secp384r1" ? "sha384" : "sha256";
  const hash = asked ?? natural;
  const oid = {
    sha1: rsa ? "1.2.840.113549.1.1.5" : "1.2.840.10045.4.1",
    sha256: rsa ? OID.rsaSha256 : OID.ecdsaSha256,
    sha384: rsa ? OID.rsaSha384 : OID.ecdsaSha384,
    sha512: rsa ? OID.rsaSha512 : OID.ecdsaSha512,
  }[hash];
  const parameters = rsa ? [derElement(TAG.null)] : [];
  return { identifier: derSequence(derOid(oid), ...parameters), hash };
}
