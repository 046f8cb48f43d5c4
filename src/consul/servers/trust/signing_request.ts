/**
 * A new key and the request to have it certified (PKCS#10, RFC 2986). The only name in it is the service's
 * URI: Consul copies every other name into the certificate.
 * @module
 */

import { generateKeyPairSync, sign } from "node:crypto";
import { OID } from "../../../identity/mod.ts";
import {
  contextTag,
  derBits,
  derBoolean,
  derElement,
  derNumber,
  derOctets,
  derOid,
  derSequence,
  derText,
  formatPem,
  TAG,
} from "../../../wire/mod.ts";

export interface SigningRequest {
  readonly csrPem: string;
  /** PKCS#8. */
  readonly keyPem: string;
}

/** PKCS#9: extensions for the certificate (RFC 2985 5.4.2). */
const EXTENSION_REQUEST = "1.2.840.113549.1.9.14";

/** The key is P-256, as Consul's agents have it. `uri` is ASCII. */
export function createSigningRequest(uri: string): SigningRequest {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const names = derSequence(derText(contextTag(6, "primitive"), uri));
  // Critical, since the subject is empty (RFC 5280 4.2.1.6).
  const alternative = derSequence(
    derOid(OID.subjectAltName),
    derBoolean(true),
    derOctets(names),
  );
  const wanted = derSequence(
    derOid(EXTENSION_REQUEST),
    derElement(TAG.set, derSequence(alternative)),
  );
  const noSubject = derSequence();
  const info = derSequence(
    derNumber(0),
    noSubject,
    new Uint8Array(publicKey.export({ type: "spki", format: "der" })),
    derElement(contextTag(0, "constructed"), wanted),
  );
  const signature = sign("sha256", info, privateKey);
  const request = derSequence(
    info,
    derSequence(derOid(OID.ecdsaSha256)),
    derBits(new Uint8Array(signature)),
  );
  return {
    csrPem: formatPem("CERTIFICATE REQUEST", request),
    keyPem: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
  };
}
