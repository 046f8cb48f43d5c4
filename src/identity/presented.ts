/**
 * What a peer shows, read within bounds.
 *
 * @module
 */

import { messageOf, ProxyError } from "../base/mod.ts";
import { type Certificate, parseCertificate } from "./certificate.ts";

/** What is judged. */
export interface Presented {
  /** DER. */
  readonly leaf: Uint8Array;
  /** DER of what else the peer sent: any order, strangers and the leaf itself allowed. */
  readonly presented: readonly Uint8Array[];
}

/** Certificates looked at besides the leaf; Consul sends at most 2. */
export const PRESENTED_LIMIT = 10;
/** Bytes of the leaf and all that was presented. */
export const PRESENTED_LIMIT_BYTES = 64 * 1024;

/** Bytes of a leaf and what came with it. */
export function presentedBytes({ leaf, presented }: Presented): number {
  let bytes = leaf.length;
  for (const der of presented) bytes += der.length;
  return bytes;
}

/** A certificate, or why it is none. Never throws. */
export function parseOrRefuse(der: Uint8Array): Certificate | ProxyError {
  try {
    return parseCertificate(der);
  } catch (error) {
    if (error instanceof ProxyError) return error;
    // A defect of our own still must not let anybody in, nor end the process.
    return new ProxyError("identity_invalid", `Cannot read certificate: ${messageOf(error)}`);
  }
}

/** The first that count. One that cannot be read links nothing; the rest may still reach a root. */
export function parsePresented(presented: readonly Uint8Array[]): readonly Certificate[] {
  return presented.slice(0, PRESENTED_LIMIT).map(parseOrRefuse).filter(isCertificate);
}

/** The end of a reason where more was presented than counts. */
export function moreThanCounts(presented: readonly Uint8Array[]): string {
  return presented.length > PRESENTED_LIMIT
    ? ` (only the first ${PRESENTED_LIMIT} of ${presented.length} certificates count)`
    : "";
}

function isCertificate(parsed: Certificate | ProxyError): parsed is Certificate {
  return !(parsed instanceof ProxyError);
}
