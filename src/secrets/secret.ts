/**
 * Secrets as values: read, decoded and checked as a whole. What gets this far can be given to the TLS
 * library. Plain data.
 *
 * @module
 */

import type { Validation } from "../identity/mod.ts";

/** A certificate chain with its key. */
export interface CertificateSecret {
  readonly type: "certificate";
  /** Leaf first, then each certificate after the one it signed. PEM. */
  readonly certPem: string;
  /** PKCS#8 PEM. Never shown anywhere. */
  readonly keyPem: string;
  readonly keyKind: "ecdsa" | "rsa" | "ed25519";
  /** Alternative names of the leaf, lower case; the common name only where there is no DNS name. */
  readonly dnsNames: readonly string[];
  readonly uris: readonly string[];
  /** As Consul writes it: lower-case hex of each byte, joined by colons. */
  readonly serial: string;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

/** Whom we accept. */
export interface ValidationSecret {
  readonly type: "validation";
  readonly validation: Validation;
}

export type Secret = CertificateSecret | ValidationSecret;
export type SecretType = Secret["type"];
