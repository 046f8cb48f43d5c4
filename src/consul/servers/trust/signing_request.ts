/** A new key, the request to have it certified (PKCS#10, RFC 2986), and our verdict on the answer. @module */

import { generateKeyPairSync, sign } from "node:crypto";
import { altNamesOf, OID, parseCertificate, validateCredentials } from "../../../identity/mod.ts";
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
  parsePem,
  TAG,
} from "../../../wire/mod.ts";
import { messageOf, ProxyError } from "../../../base/mod.ts";
import type { Leaf, Roots } from "../../model/values.ts";

export interface SigningRequest {
  readonly csrPem: string;
  /** PKCS#8. */
  readonly keyPem: string;
}

/** PKCS#9: extensions for the certificate (RFC 2985 5.4.2). */
const EXTENSION_REQUEST = "1.2.840.113549.1.9.14";

/**
 * The only name in it is the service's URI: Consul copies every other name into the certificate.
 * The key is P-256, as Consul's agents have it. `uri` is ASCII.
 */
export function createSigningRequest(uri: string): SigningRequest {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const names = derSequence(derText(contextTag(6, "primitive"), uri));
  // Critical, since the subject is empty (RFC 5280 4.2.1.6).
  const alternative = derSequence(derOid(OID.subjectAltName), derBoolean(true), derOctets(names));
  const extensions = derElement(TAG.set, derSequence(alternative));
  const wanted = derSequence(derOid(EXTENSION_REQUEST), extensions);
  const noSubject = derSequence();
  const key = new Uint8Array(publicKey.export({ type: "spki", format: "der" }));
  const attributes = derElement(contextTag(0, "constructed"), wanted);
  const info = derSequence(derNumber(0), noSubject, key, attributes);
  const signature = new Uint8Array(sign("sha256", info, privateKey));
  const algorithm = derSequence(derOid(OID.ecdsaSha256));
  const request = derSequence(info, algorithm, derBits(signature));
  return {
    csrPem: formatPem("CERTIFICATE REQUEST", request),
    keyPem: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
  };
}

interface SignedLeafInput {
  /** The reply: the leaf first, then the certificates that link it to a root. */
  readonly certPem: string;
  /** The request's, PKCS#8. */
  readonly keyPem: string;
  /** The request's, in Consul's spelling. */
  readonly uri: string;
  readonly roots: Roots;
  readonly nowMs: number;
}

/** Fails with `agent_reply_invalid` that names the fault. */
export function judgeSigned({ certPem, keyPem, uri, roots, nowMs }: SignedLeafInput): Leaf {
  try {
    const valid = validateCredentials({
      certPem,
      keyPem,
      nowMs,
      rootPems: roots.roots.map(({ pem }) => pem),
      trustDomains: [roots.trustDomain],
    });
    if (valid.uri !== uri) throw new Error(`it is for ${valid.uri}`);
    const [leaf] = parsePem(valid.certPem, { what: "certificate" });
    const others = leaf && altNamesOf(parseCertificate(leaf.der));
    if (!others || others.dns.length + others.ips.length + others.emails.length > 0) {
      throw new Error("it has names that were not asked for");
    }
    const { serial, notBeforeMs, notAfterMs } = valid;
    return { certPem: valid.certPem, keyPem: valid.keyPem, uri, serial, notBeforeMs, notAfterMs };
  } catch (cause) {
    const fact = messageOf(cause) + clockHint(certPem, nowMs);
    const message = `Cannot use the certificate that the server signed for ${uri}: ${fact}`;
    throw new ProxyError("agent_reply_invalid", message, { cause });
  }
}

/** Servers sign for now: a certificate that is not valid now was signed by another clock than ours. */
function clockHint(certPem: string, nowMs: number): string {
  try {
    const isOutside = parsePem(certPem, { what: "certificate" })
      .map(({ der }) => parseCertificate(der))
      .some(({ notBeforeMs, notAfterMs }) => nowMs < notBeforeMs || nowMs > notAfterMs);
    return isOutside ? ` (here it is ${new Date(nowMs).toISOString()}: is this clock right?)` : "";
  } catch {
    // The refusal names that it cannot be read.
    return "";
  }
}
