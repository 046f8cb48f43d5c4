/**
 * A PEM text that holds certificates of authorities and, it may be, revocation lists. Nothing is left
 * out in silence: what cannot be read makes the whole unusable, because a bundle that lost an authority
 * would refuse its peers, and one that lost a list would accept the revoked.
 *
 * @module
 */

import { parseCertificate, sameBytes } from "../../identity/mod.ts";
import { formatPem, parsePem } from "../../wire/mod.ts";
import { asFault } from "./private_key.ts";
import { fail } from "./source_bytes.ts";

export interface Bundle {
  /** PEM, one each, no two alike. */
  readonly rootPems: readonly string[];
  readonly crlPems: readonly string[];
}

/** Certificates of one bundle; Mozilla's list has 140. */
const BLOCK_LIMIT = 1000;

export interface CertificateBundleOptions {
  /** How errors name the text. */
  readonly what: string;
  /** The system's roots are read so: one that we cannot read (version 1, for one) is passed over. */
  readonly lenient?: boolean;
  readonly limitChars?: number;
}

export async function readBundle(text: string, options: CertificateBundleOptions): Promise<Bundle> {
  const { what, lenient = false, limitChars = 1 << 20 } = options;
  const blocks = parsePem(text, { what, limitBlocks: BLOCK_LIMIT, limitChars });
  const seen = new Set<string>();
  const rootPems: string[] = [];
  const crlPems: string[] = [];
  for (const { label, der } of blocks) {
    if (label.endsWith("PRIVATE KEY")) {
      fail(what, "it has a private key, which does not belong here");
    }
    if (label === "X509 CRL") {
      crlPems.push(formatPem("X509 CRL", der));
      continue;
    }
    // OpenSSL's label with trust settings after the certificate: those would be lost.
    if (label !== "CERTIFICATE" && label !== "X509 CERTIFICATE") {
      fail(what, `it has a "${label}" block, which does not belong here`);
    }
    const position = rootPems.length + 1;
    try {
      await asFault(`certificate ${position} of ${what}`, () => {
        const certificate = parseCertificate(der);
        // Bytes after the certificate would not be what was read.
        if (!sameBytes(certificate.raw, der)) fail(what, "a certificate has trailing bytes");
      });
    } catch (error) {
      if (lenient) continue;
      throw error;
    }
    const pem = formatPem("CERTIFICATE", der);
    if (seen.has(pem)) continue;
    seen.add(pem);
    rootPems.push(pem);
  }
  return { rootPems, crlPems };
}

/** Revocation lists: PEM, several in one text, or one in DER. */
export async function readRevocationLists(
  bytes: Uint8Array,
  { what, text }: { readonly what: string; readonly text: string },
): Promise<readonly string[]> {
  // A list in DER is a SEQUENCE with a long length; PEM begins with text.
  const binary = bytes[0] === 0x30 && (bytes[1] ?? 0) >= 0x80;
  if (binary) return [formatPem("X509 CRL", bytes)];
  const blocks = await asFault(what, () => {
    return parsePem(text, { what, limitBlocks: BLOCK_LIMIT, limitChars: 4 << 20 });
  });
  if (blocks.length === 0) return fail(what, "it has no X509 CRL block");
  return blocks.map(({ label, der }) => {
    if (label !== "X509 CRL") fail(what, `it has a "${label}" block, which does not belong here`);
    return formatPem("X509 CRL", der);
  });
}
