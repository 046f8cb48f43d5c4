/**
 * Certificates with their keys, checked before they replace the last good ones, so that the TLS library
 * takes them: any pair, and the mesh's own, which peers with the same roots must accept.
 *
 * @module
 */

import { lowerAscii, ProxyError } from "../base/mod.ts";
import { altNamesOf, commonNameOf } from "./certificate_names.ts";
import { allowsKeyUsage, type Certificate } from "./certificate.ts";
import { identityOf } from "./chain.ts";
import { leafFault } from "./leaf_rules.ts";
import { findPath, validityFault } from "./path.ts";
import {
  fail,
  inIssuingOrder,
  parseRoots,
  pemOf,
  pickLeaf,
  pkcs8Of,
  readCertificates,
  readKey,
} from "./pem_material.ts";
import { keyFault } from "./signature.ts";
import type { ServiceId } from "./spiffe.ts";

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
    keyPem: pkcs8Of(key),
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
