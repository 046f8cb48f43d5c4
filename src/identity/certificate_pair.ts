/**
 * A certificate with its key, checked before it replaces the last good one: whatever gets past here can
 * be given to the TLS library. Who will trust it is the peers' business; `credentials.ts` asks that of
 * the mesh's own.
 *
 * @module
 */

import { lowerAscii, ProxyError } from "../base/mod.ts";
import { altNamesOf, commonNameOf } from "./alt_names.ts";
import { allowsKeyUsage, type Certificate } from "./certificate.ts";
import { OID } from "./oids.ts";
import { type Usage, validityFault } from "./path.ts";
import {
  inIssuingOrder,
  pemOf,
  pickLeaf,
  pkcs8Of,
  readCertificates,
  readKey,
} from "./pem_material.ts";
import { keyFault } from "./signature.ts";

export interface CertificatePairInput {
  /** Leaf and what links it to a root, in any order; other blocks are skipped. */
  readonly certPem: string;
  /** PKCS#8, SEC1 or PKCS#1, not encrypted; other blocks are skipped. */
  readonly keyPem: string;
  readonly nowMs: number;
  /** What the leaf's extended key usage must allow where it has one; default none. */
  readonly usages?: readonly Usage[];
}

/** The fields of a certificate secret. */
export interface CertificatePair {
  /** Leaf first, then each certificate after the one it signed. PEM. */
  readonly certPem: string;
  /** PKCS#8 PEM. */
  readonly keyPem: string;
  readonly keyKind: "ecdsa" | "rsa" | "ed25519";
  /** Alternative names of the leaf, lower case; the common name only where there is no DNS name. */
  readonly dnsNames: readonly string[];
  readonly uris: readonly string[];
  /** As Consul writes it. */
  readonly serial: string;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

/** Throws `credentials_invalid` that names what is wrong; anything returned is sound at `nowMs`. */
export function validateCertificatePair(input: CertificatePairInput): CertificatePair {
  const { nowMs, usages = [] } = input;
  const key = readKey(input.keyPem);
  const { leaf, others } = pickLeaf(readCertificates(input.certPem, "certificate"), key);
  const fault = ownFault(leaf, nowMs);
  if (fault !== undefined) fail(fault);
  for (const usage of usages) {
    if (!allowsUsage(leaf, usage)) fail(`its extended key usage lacks ${usage}Auth`);
  }
  return {
    certPem: [leaf, ...inIssuingOrder(leaf, others)].map(pemOf).join(""),
    keyPem: pkcs8Of(key),
    keyKind: keyKindOf(leaf),
    dnsNames: dnsNamesOf(leaf),
    uris: leaf.sanUris,
    serial: leaf.serial,
    notBeforeMs: leaf.notBeforeMs,
    notAfterMs: leaf.notAfterMs,
  };
}

function ownFault(leaf: Certificate, nowMs: number): string | undefined {
  const fault = validityFault(leaf, nowMs) ?? keyFault(leaf);
  if (fault !== undefined) return `it ${fault}`;
  // Every suite that we speak signs with the leaf's key.
  if (allowsKeyUsage(leaf, "digitalSignature") === false) {
    return "its key usage lacks digitalSignature";
  }
  return undefined;
}

function allowsUsage({ extendedKeyUsage }: Certificate, usage: Usage): boolean {
  if (!extendedKeyUsage) return true;
  const needed = usage === "client" ? OID.clientAuth : OID.serverAuth;
  return extendedKeyUsage.includes(needed) || extendedKeyUsage.includes(OID.anyExtendedKeyUsage);
}

function keyKindOf({ key }: Certificate): CertificatePair["keyKind"] {
  switch (key.kind) {
    case "ec":
      return "ecdsa";
    case "rsa":
    case "ed25519":
      return key.kind;
    case "unsupported":
      return fail(`it has an unsupported kind of key (${key.oid})`);
  }
}

function dnsNamesOf(leaf: Certificate): readonly string[] {
  const { dns } = altNamesOf(leaf);
  if (dns.length > 0) return [...new Set(dns.map(lowerAscii))];
  const commonName = lowerAscii(commonNameOf(leaf) ?? "");
  // A common name may be any text; only one that a client could ask for is of use.
  return /^(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/.test(commonName) ? [commonName] : [];
}

function fail(fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot use the certificate: ${fact}`);
}
