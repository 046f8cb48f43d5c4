/**
 * Selects the certificate for a client: the one for its SNI, with the best kind of key that the client can
 * verify. It is Envoy's selection, so that a listener that was moved from Envoy shows the same ones.
 *
 * @module
 */

import type { ClientHello } from "../wire/mod.ts";

type KeyKind = "ecdsa" | "rsa" | "ed25519";

interface SelectableCertificate {
  /** DNS names of the leaf with wildcards, or else its common name. */
  readonly dnsNames: readonly string[];
  readonly keyKind: KeyKind;
}

export interface CertificateIndex {
  /** Index of the certificate; -1: there are none at all. */
  find(hello: Pick<ClientHello, "serverName" | "signatureAlgorithms">): number;
}

/** Signature schemes (RFC 8446 4.2.3) with SHA-256, SHA-384 and SHA-512. */
const ECDSA_SCHEMES: ReadonlySet<number> = new Set([0x0403, 0x0503, 0x0603]);
const ED25519_SCHEME = 0x0807;

/** Index of the first certificate with each kind of key. */
type ByKind = Partial<Record<KeyKind, number>>;

/**
 * The exact name comes first, then a wildcard for its first label; among these ECDSA, then Ed25519, if the
 * client can verify it, then RSA. A match without a scheme of the client is shown rather than none. An
 * unknown name gets the first certificate; a client without SNI, the first one of the best kind.
 */
export function createCertificateIndex(
  certificates: readonly SelectableCertificate[],
): CertificateIndex {
  const byName = new Map<string, ByKind>();
  const all: ByKind = {};
  certificates.forEach(({ dnsNames, keyKind }, index) => {
    all[keyKind] ??= index;
    for (const name of dnsNames) {
      const key = normalName(name);
      let kinds = byName.get(key);
      if (!kinds) byName.set(key, kinds = {});
      kinds[keyKind] ??= index;
    }
  });
  return {
    find({ serverName, signatureAlgorithms }) {
      if (certificates.length === 0) return -1;
      if (serverName === undefined) return best(all, signatureAlgorithms);
      const kinds = byName.get(serverName) ?? byName.get(wildcardOf(serverName));
      return kinds ? best(kinds, signatureAlgorithms) : 0;
    },
  };
}

function best(kinds: ByKind, algorithms: readonly number[]): number {
  const { ecdsa, ed25519, rsa } = kinds;
  if (ecdsa !== undefined && algorithms.some((scheme) => ECDSA_SCHEMES.has(scheme))) return ecdsa;
  if (ed25519 !== undefined && algorithms.includes(ED25519_SCHEME)) return ed25519;
  return rsa ?? Math.min(ecdsa ?? Infinity, ed25519 ?? Infinity);
}

/** A host name in the spelling of a parsed ClientHello. */
function normalName(name: string): string {
  return (name.endsWith(".") ? name.slice(0, -1) : name).toLowerCase();
}

/** `*.example.com` for `www.example.com`: a wildcard is one whole label. */
function wildcardOf(name: string): string {
  const dot = name.indexOf(".");
  // A name without a dot has no wildcard, and no certificate has the name "".
  return dot < 0 ? "" : `*${name.slice(dot)}`;
}
