/**
 * Certificate signing requests (PKCS #10, RFC 2986) as Consul reads them: the key and the alternative
 * names count; subject, wishes for a CA and the request's own signature do not.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { createPublicKey, type KeyObject } from "node:crypto";
import { asciiOf, contextTag, DerReader, oidOf, parsePem, TAG } from "../../../src/wire/mod.ts";
import { OID } from "../../../src/identity/mod.ts";

export interface SigningRequest {
  readonly publicKey: KeyObject;
  /** DER of every GeneralName, in order. */
  readonly altNames: readonly Uint8Array[];
  readonly uris: readonly string[];
}

/** PKCS #9 `extensionRequest`. */
const EXTENSION_REQUEST = "1.2.840.113549.1.9.14";
const LIMIT_CHARS = 64 * 1024;

/** Undefined where there is no PEM; throws for a request that cannot be read. */
export function readSigningRequest(pem: string): SigningRequest | undefined {
  let der: Uint8Array | undefined;
  try {
    der = parsePem(pem, { what: "signing request", limitChars: LIMIT_CHARS })[0]?.der;
  } catch {
    // Consul gives the same error for everything that is not PEM.
    return undefined;
  }
  if (!der) return undefined;
  const request = new DerReader(der).enter(TAG.sequence, "signing request");
  const info = request.enter(TAG.sequence, "request info");
  info.read(TAG.integer, "version");
  info.read(TAG.sequence, "subject");
  const spki = info.read(TAG.sequence, "public key").raw;
  const attributes = info.optional(contextTag(0, "constructed"), "attributes");
  const altNames: Uint8Array[] = [];
  const uris: string[] = [];
  const list = attributes && altNamesIn(info.inside(attributes));
  while (list && !list.done) {
    const name = list.any("alternative name");
    altNames.push(name.raw);
    if (name.tag === contextTag(6, "primitive")) uris.push(asciiOf(name.body, "URI"));
  }
  // Copied: the key must not change with the message that it came in.
  const publicKey = createPublicKey({ key: Buffer.from(spki), format: "der", type: "spki" });
  return { publicKey, altNames, uris };
}

function altNamesIn(attributes: DerReader): DerReader | undefined {
  while (!attributes.done) {
    const attribute = attributes.enter(TAG.sequence, "attribute");
    if (oidOf(attribute.read(TAG.oid, "attribute type"), "attribute type") !== EXTENSION_REQUEST) {
      continue;
    }
    const extensions = attribute.enter(TAG.set, "values").enter(TAG.sequence, "extensions");
    while (!extensions.done) {
      const extension = extensions.enter(TAG.sequence, "extension");
      const isNames = oidOf(extension.read(TAG.oid, "extension"), "extension") ===
        OID.subjectAltName;
      extension.optional(TAG.boolean, "critical");
      const value = extension.read(TAG.octetString, "extension value");
      if (isNames) return extension.inside(value).enter(TAG.sequence, "alternative names");
    }
  }
  return undefined;
}
