/**
 * `/certs`: our certificate, its chain and the roots we trust, with how long each is still valid.
 *
 * @module
 */

import { messageOf } from "../base/mod.ts";
import { parseCertificate } from "../identity/mod.ts";
import type { Snapshot } from "../snapshot/mod.ts";
import { parsePem } from "../wire/mod.ts";

const DAY_MS = 86_400_000;

export interface CertificateShown {
  readonly serial: string;
  /** URI alternative names: the SPIFFE id. */
  readonly uris: readonly string[];
  readonly notBefore: string;
  readonly notAfter: string;
  /** Two decimals; negative: expired. */
  readonly daysLeft: number;
}

export interface CertsShown {
  readonly uri: string;
  readonly trustDomains: readonly string[];
  readonly leaf: CertificateShown | null;
  /** What we present after the leaf. */
  readonly chain: readonly CertificateShown[];
  readonly roots: readonly CertificateShown[];
  /** Certificates that could not be read, which should never happen. */
  readonly errors: readonly string[];
}

export function certsShown(snapshot: Snapshot | undefined, nowMs: number): CertsShown {
  const errors: string[] = [];
  const read = (pem: string, what: string): CertificateShown[] => {
    try {
      const blocks = parsePem(pem, { what });
      return blocks.filter(({ label }) => label === "CERTIFICATE").map(({ der }) =>
        show(der, nowMs)
      );
    } catch (error) {
      errors.push(messageOf(error));
      return [];
    }
  };
  const credentials = snapshot?.credentials;
  const [leaf = null, ...chain] = credentials ? read(credentials.certPem, "leaf certificate") : [];
  return {
    uri: credentials?.uri ?? "",
    trustDomains: credentials?.trustDomains ?? [],
    leaf,
    chain,
    roots: credentials?.rootPems.flatMap((pem) => read(pem, "root certificate")) ?? [],
    errors,
  };
}

function show(der: Uint8Array, nowMs: number): CertificateShown {
  const { serial, sanUris, notBeforeMs, notAfterMs } = parseCertificate(der);
  return {
    serial,
    uris: sanUris,
    notBefore: new Date(notBeforeMs).toISOString(),
    notAfter: new Date(notAfterMs).toISOString(),
    daysLeft: Math.floor((notAfterMs - nowMs) / DAY_MS * 100) / 100,
  };
}
