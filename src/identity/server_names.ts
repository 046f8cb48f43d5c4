/** Server names (SNI): the certificate for one, names that may be fetched, names in Consul's form. @module */

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

type ByKind = Partial<Record<KeyKind, number>>;

/**
 * Envoy's selection, so that a listener that was moved from Envoy shows the same certificates: the exact
 * name comes first, then a wildcard for its first label; among these ECDSA, then Ed25519, if the
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

const NAME_LIMIT = 253;
const LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/** Exact names, and suffixes such as `.example.com`; both empty: every DNS name. */
export interface WantedNames {
  readonly names: readonly string[];
  readonly suffixes: readonly string[];
}

/** Bounds on the fetches that clients can cause (envoy.md 1.10). Plain data. */
export interface OnDemandRules extends WantedNames {
  /** Certificates held at once; the least recently requested one goes. Default 1,000. */
  readonly maxEntries: number;
  /** A name that the server does not know is not requested again for this long. Default 30 s. */
  readonly negativeTtlMs: number;
  /** New names per second and source address. Default 10. */
  readonly perSourceRate: number;
  /** Names requested and not answered at once. Default 100. */
  readonly maxPending: number;
  /**
   * How long a handshake waits, within its own deadline of 10 s. Default 8 s, so that the client gets an
   * alert.
   */
  readonly waitMs: number;
}

interface Allowed {
  readonly names: ReadonlySet<string>;
  readonly suffixes: ReadonlySet<string>;
}

/** Lists may be long, and many handshakes have the same rules. */
const compiled = new WeakMap<WantedNames, Allowed>();

/** Why no certificate may be fetched for a name, in any case; `undefined`: it may. */
export function judgeName(rules: WantedNames, name: string): string | undefined {
  if (name.length > NAME_LIMIT) return "longer than a DNS name can be";
  const lower = name.toLowerCase();
  const labels = lower.split(".");
  if (!labels.every((label) => LABEL.test(label))) return "not a DNS name";
  if (/^\d+$/.test(labels.at(-1) ?? "")) return "an address, not a DNS name";
  const { names, suffixes } = allowedOf(rules);
  if (names.has(lower)) return undefined;
  if (labels.length < 2) return "without a dot and not on the list";
  if (names.size === 0 && suffixes.size === 0) return undefined;
  for (let dot = lower.indexOf("."); dot !== -1; dot = lower.indexOf(".", dot + 1)) {
    if (suffixes.has(lower.slice(dot))) return undefined;
  }
  return "not on the list";
}

function allowedOf(rules: WantedNames): Allowed {
  let allowed = compiled.get(rules);
  if (!allowed) {
    const names = new Set(rules.names.map((name) => name.toLowerCase()));
    // Without its dot, `example.com` would match `badexample.com`, too.
    const dotted = rules.suffixes.map((suffix) =>
      suffix.startsWith(".") ? suffix.toLowerCase() : `.${suffix.toLowerCase()}`
    );
    compiled.set(rules, allowed = { names, suffixes: new Set(dotted) });
  }
  return allowed;
}

interface SniOptions {
  readonly service: string;
  /** "" or absent: none. */
  readonly subset?: string;
  readonly namespace: string;
  readonly partition: string;
  readonly datacenter: string;
  /** The roots reply's. */
  readonly trustDomain: string;
}

/** The name of a service: `[subset.]svc.ns.dc.internal.<td>`, or `...ns.ap.dc.internal-v1.<td>`. */
export function formatServiceSni(options: SniOptions): string {
  const { service, subset, namespace, partition, datacenter, trustDomain } = options;
  const isDefault = partition === "" || partition.toLowerCase() === "default";
  return dotted([
    subset,
    service,
    namespace || "default",
    ...isDefault ? [datacenter, "internal"] : [partition, datacenter, "internal-v1"],
    trustDomain.toLowerCase(),
  ]);
}

/** The name of a prepared query in `datacenter`: `<query>.default.<dc>.query.<td>`. */
export function formatQuerySni(
  options: { readonly query: string; readonly datacenter: string; readonly trustDomain: string },
): string {
  const { query, datacenter, trustDomain } = options;
  return dotted([query, "default", datacenter, "query", trustDomain.toLowerCase()]);
}

function dotted(parts: readonly (string | undefined)[]): string {
  return parts.filter((part) => part !== undefined && part !== "").join(".");
}
