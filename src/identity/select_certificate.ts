/**
 * Which of several certificates a client is shown: the one of the name it asks for, of the best kind of
 * key that it can verify. As Envoy selects, so that a listener moved from there serves the same ones.
 *
 * @module
 */

import type { ClientHello } from "../wire/mod.ts";

type KeyKind = "ecdsa" | "rsa" | "ed25519";

export interface SelectableCertificate {
  /** DNS names of the leaf, wildcards included; without one its common name. */
  readonly dnsNames: readonly string[];
  readonly keyKind: KeyKind;
}

export interface CertificateIndex {
  /** Index of the certificate to show; -1 only where there is none at all. */
  find(hello: Pick<ClientHello, "serverName" | "signatureAlgorithms">): number;
}

/** What a client must be able to verify (RFC 8446 4.2.3); each with SHA-256, SHA-384, SHA-512. */
const ECDSA_SCHEMES: ReadonlySet<number> = new Set([0x0403, 0x0503, 0x0603]);
const ED25519_SCHEME = 0x0807;

/** The first certificate with each kind of key. */
type ByKind = Partial<Record<KeyKind, number>>;

/**
 * Exact name, then a wildcard for its first label; among those ECDSA, then Ed25519, where the client can
 * verify it, then RSA. A match that the client does not say it can verify is shown rather than none.
 * A name that no certificate has gets the first one; no name at all, the first of the best kind.
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

/** For a few certificates at once; many handshakes share a {@link createCertificateIndex}. */
export function selectCertificate(
  certificates: readonly SelectableCertificate[],
  hello: Pick<ClientHello, "serverName" | "signatureAlgorithms">,
): number {
  return createCertificateIndex(certificates).find(hello);
}

function best(kinds: ByKind, algorithms: readonly number[]): number {
  const { ecdsa, ed25519, rsa } = kinds;
  if (ecdsa !== undefined && algorithms.some((scheme) => ECDSA_SCHEMES.has(scheme))) return ecdsa;
  if (ed25519 !== undefined && algorithms.includes(ED25519_SCHEME)) return ed25519;
  return rsa ?? Math.min(ecdsa ?? Infinity, ed25519 ?? Infinity);
}

/** A host's name as a hello spells it. */
function normalName(name: string): string {
  return (name.endsWith(".") ? name.slice(0, -1) : name).toLowerCase();
}

/** `*.example.com` for `www.example.com`: one label, and that one whole. */
function wildcardOf(name: string): string {
  const dot = name.indexOf(".");
  // A name without a dot has no wildcard; "" is nobody's name.
  return dot < 0 ? "" : `*${name.slice(dot)}`;
}
