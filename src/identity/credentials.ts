/** Certificates with their keys in PEM, checked before they replace the last good ones. @module */

import { lowerAscii, messageOf, ProxyError } from "../base/mod.ts";
import { altNamesOf, commonNameOf } from "./certificate_names.ts";
import { allowsKeyUsage, type Certificate, parseCertificate, sameBytes } from "./certificate.ts";
import { identityOf, PRESENTED_LIMIT } from "./chain.ts";
import { leafFault } from "./leaf_rules.ts";
import { findPath, namesFit, validityFault } from "./path.ts";
import { isSignedBy, keyFault } from "./signature.ts";
import type { ServiceId } from "./spiffe.ts";
import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { formatPem, parsePem } from "../wire/mod.ts";

export interface PairInput {
  /** Leaf and intermediates, in any order; other blocks are skipped. */
  readonly certPem: string;
  /** PKCS#8, SEC1 or PKCS#1, not encrypted; other blocks are skipped. */
  readonly keyPem: string;
  readonly nowMs: number;
}

interface CheckedPair {
  /** Leaf first, then each certificate after the one it signed. PEM. */
  readonly certPem: string;
  /** PKCS#8 PEM. Never shown anywhere. */
  readonly keyPem: string;
  /** As Consul writes it: lower-case hex of the bytes, joined by colons. */
  readonly serial: string;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

export interface CertificatePair extends CheckedPair {
  readonly keyKind: "ecdsa" | "rsa" | "ed25519";
  /** Alternative names of the leaf, lower case; the common name only if there is no DNS name. */
  readonly dnsNames: readonly string[];
  readonly uris: readonly string[];
}

/** Throws `credentials_invalid` that names the fault; the result is valid at `nowMs`. */
export function validateCertificatePair(input: PairInput): CertificatePair {
  const { leaf, pair } = readPair(input, "certificate");
  const fault = validityFault(leaf, input.nowMs) ?? keyFault(leaf);
  if (fault !== undefined) refuse(`it ${fault}`);
  // Every cipher suite of ours signs with the leaf's key.
  if (allowsKeyUsage(leaf, "digitalSignature") === false) {
    refuse("its key usage lacks digitalSignature");
  }
  return { ...pair, keyKind: keyKindOf(leaf), dnsNames: dnsNamesOf(leaf), uris: leaf.sanUris };
}

export interface CredentialsInput extends PairInput {
  readonly rootPems: readonly string[];
  /** The roots reply's and external ones of its roots, in any case. */
  readonly trustDomains: readonly string[];
  readonly strictSpiffeChain?: boolean;
}

/** The content of `CredentialsPart` of the snapshot, and the id. */
interface ValidatedCredentials extends CheckedPair {
  /** One certificate each, no two alike. */
  readonly rootPems: readonly string[];
  readonly trustDomains: readonly string[];
  readonly uri: string;
  readonly id: ServiceId;
}

/** The mesh's own. Throws `credentials_invalid` that names the fault; the result is valid at `nowMs`. */
export function validateCredentials(input: CredentialsInput): ValidatedCredentials {
  const { nowMs, strictSpiffeChain = false } = input;
  const trustDomains = [...new Set(input.trustDomains.map((domain) => domain.toLowerCase()))];
  const roots = parseRoots(input.rootPems);
  if (roots.length === 0) fail("there is no root certificate");
  const { leaf, others, pair } = readPair(input, "leaf certificate");
  const identity = identityOf(leaf, trustDomains);
  if (identity.kind === "refused") return fail(`the leaf is not acceptable: ${identity.reason}`);
  for (const usage of ["client", "server"] as const) {
    const fault = leafFault(leaf, { nowMs, usage });
    if (fault !== undefined) fail(`the leaf of ${identity.peer.uri} is not acceptable: ${fault}`);
    const path = findPath({
      leaf,
      presented: others,
      roots,
      nowMs,
      usage,
      ...strictSpiffeChain && { spiffeTrustDomains: trustDomains },
    });
    if (path.kind === "none") {
      fail(`the leaf of ${identity.peer.uri} does not reach a root: ${path.reason}`);
    }
  }
  return { ...pair, rootPems: roots.map(pemOf), trustDomains, ...identity.peer };
}

function readPair({ certPem, keyPem }: PairInput, what: string) {
  const key = readKey(keyPem);
  const { leaf, others } = pickLeaf(readCertificates(certPem, what), key);
  const { serial, notBeforeMs, notAfterMs } = leaf;
  const pair: CheckedPair = {
    certPem: [leaf, ...inIssuingOrder(leaf, others)].map(pemOf).join(""),
    keyPem: key.export({ type: "pkcs8", format: "pem" }).toString(),
    serial,
    notBeforeMs,
    notAfterMs,
  };
  return { leaf, others, pair };
}

function keyKindOf({ key }: Certificate): CertificatePair["keyKind"] {
  switch (key.kind) {
    case "ec":
      return "ecdsa";
    case "rsa":
    case "ed25519":
      return key.kind;
    case "unsupported":
      return refuse(`it has an unsupported kind of key (${key.oid})`);
  }
}

function dnsNamesOf(leaf: Certificate): readonly string[] {
  const { dns } = altNamesOf(leaf);
  if (dns.length > 0) return [...new Set(dns.map(lowerAscii))];
  const commonName = lowerAscii(commonNameOf(leaf) ?? "");
  // A common name may be any text; only a host name can be an SNI.
  return /^(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/.test(commonName) ? [commonName] : [];
}

function refuse(fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot use the certificate: ${fact}`);
}

/** Roots of a mesh. A store of public roots has more and gives its own limit. */
const ROOT_LIMIT = 100;
const KEY_LABELS = new Set(["PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY"]);

export function spkiOf(publicKey: KeyObject): Uint8Array {
  return new Uint8Array(publicKey.export({ type: "spki", format: "der" }));
}

/** Every certificate in `rootPems` once; throws `credentials_invalid` for an unreadable one. */
export function parseRoots(
  rootPems: readonly string[],
  options: { readonly what?: string; readonly limit?: number } = {},
): readonly Certificate[] {
  const { what = "root certificate", limit = ROOT_LIMIT } = options;
  const roots: Certificate[] = [];
  for (const pem of rootPems) {
    for (const root of readCertificates(pem, what)) {
      if (!roots.some((known) => sameBytes(known.raw, root.raw))) roots.push(root);
      if (roots.length > limit) fail(`there are more than ${limit} roots`);
    }
  }
  return roots;
}

/** The certificates of a PEM text; at least one. */
export function readCertificates(pem: string, what: string): Certificate[] {
  const blocks = parsePem(pem, { what }).filter((block) => block.label === "CERTIFICATE");
  if (blocks.length === 0) fail(`${what} PEM has no CERTIFICATE block`);
  return blocks.map(({ der }) => {
    try {
      return parseCertificate(der);
    } catch (cause) {
      const message = `Cannot use ${what}: ${messageOf(cause)}`;
      throw new ProxyError("credentials_invalid", message, { cause });
    }
  });
}

function readKey(pem: string): KeyObject {
  const [block, second] = parsePem(pem, { what: "private key" })
    .filter(({ label }) => KEY_LABELS.has(label));
  if (!block) return fail("private key PEM has no PRIVATE KEY block");
  if (second) return fail("private key PEM has more than one PRIVATE KEY block");
  try {
    return createPrivateKey(formatPem(block.label, block.der));
  } catch (cause) {
    // The runtime's message is not repeated: nothing promises that it has no key material.
    const message =
      `Cannot use credentials: "${block.label}" is not a private key that can be read`;
    throw new ProxyError("credentials_invalid", message, { cause });
  }
}

/** The certificate of the key: the first one, unless a file has another order. */
function pickLeaf(
  certificates: readonly Certificate[],
  key: KeyObject,
): { readonly leaf: Certificate; readonly others: readonly Certificate[] } {
  const spki = spkiOf(createPublicKey(key));
  const leaf = certificates.find((certificate) => sameBytes(certificate.spki, spki));
  if (!leaf) return fail("the private key does not belong to the leaf certificate");
  const others = certificates.filter((certificate) => !sameBytes(certificate.raw, leaf.raw));
  if (others.length > PRESENTED_LIMIT) {
    return fail(`${others.length} certificates follow the leaf, more than ${PRESENTED_LIMIT}`);
  }
  return { leaf, others };
}

/**
 * TLS libraries send certificates in the given order, and some peers require that each certifies the one
 * before (RFC 5246 7.4.2). Consul's list is not in that order after a rotation in a secondary datacenter.
 * Certificates without a link come last.
 */
function inIssuingOrder(leaf: Certificate, others: readonly Certificate[]): Certificate[] {
  const rest = [...others];
  const ordered: Certificate[] = [];
  for (let current = leaf;;) {
    const at = rest.findIndex((issuer) => namesFit(current, issuer) && isSignedBy(current, issuer));
    const [next] = at < 0 ? [] : rest.splice(at, 1);
    if (!next) break;
    ordered.push(next);
    current = next;
  }
  return [...ordered, ...rest];
}

function pemOf(certificate: Certificate): string {
  return formatPem("CERTIFICATE", certificate.raw);
}

function fail(fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot use credentials: ${fact}`);
}
