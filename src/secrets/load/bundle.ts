/**
 * PEM with CA certificates and revocation lists. An unreadable block makes the whole text unusable: a
 * bundle that lost an authority would refuse its peers, and one that lost a list would accept revoked
 * certificates.
 *
 * @module
 */

import { parseCertificate, sameBytes } from "../../identity/mod.ts";
import { formatPem, parsePem } from "../../wire/mod.ts";
import { asFault, fail } from "./source_bytes.ts";

export interface Bundle {
  /** PEM, one each, no two alike. */
  readonly rootPems: readonly string[];
  readonly crlPems: readonly string[];
}

/** Certificates of one bundle; Mozilla's list has 140. */
const BLOCK_LIMIT = 1000;

export async function readBundle(
  text: string,
  options: {
    /** The name of the text in errors. */
    readonly what: string;
    /** Unreadable roots (version 1, for one) are skipped: for the system's roots. */
    readonly lenient?: boolean;
    readonly limitChars?: number;
  },
): Promise<Bundle> {
  const { what, lenient = false, limitChars = 1 << 20 } = options;
  const blocks = parsePem(text, { what, limitBlocks: BLOCK_LIMIT, limitChars });
  const rootPems = new Set<string>();
  const crlPems: string[] = [];
  for (const { label, der } of blocks) {
    if (label.endsWith("PRIVATE KEY")) {
      fail(what, "it has a private key, which does not belong here");
    }
    if (label === "X509 CRL") {
      crlPems.push(formatPem("X509 CRL", der));
      continue;
    }
    // OpenSSL's label with trust settings after the certificate is refused: those would be lost.
    if (label !== "CERTIFICATE" && label !== "X509 CERTIFICATE") {
      fail(what, `it has a "${label}" block, which does not belong here`);
    }
    try {
      await asFault(`certificate ${rootPems.size + 1} of ${what}`, () => {
        const certificate = parseCertificate(der);
        // The check covers no bytes after the certificate.
        if (!sameBytes(certificate.raw, der)) fail(what, "a certificate has trailing bytes");
      });
    } catch (error) {
      if (lenient) continue;
      throw error;
    }
    rootPems.add(formatPem("CERTIFICATE", der));
  }
  return { rootPems: [...rootPems], crlPems };
}

/** Revocation lists: PEM, several in one text, or one in DER. */
export async function readRevocationLists(
  bytes: Uint8Array,
  { what, text }: { readonly what: string; readonly text: string },
): Promise<readonly string[]> {
  // A list in DER is a SEQUENCE with a long length; PEM begins with text.
  const isDer = bytes[0] === 0x30 && (bytes[1] ?? 0) >= 0x80;
  if (isDer) return [formatPem("X509 CRL", bytes)];
  const blocks = await asFault(what, () => {
    return parsePem(text, { what, limitBlocks: BLOCK_LIMIT, limitChars: 4 << 20 });
  });
  if (blocks.length === 0) return fail(what, "it has no X509 CRL block");
  return blocks.map(({ label, der }) => {
    if (label !== "X509 CRL") fail(what, `it has a "${label}" block, which does not belong here`);
    return formatPem("X509 CRL", der);
  });
}
