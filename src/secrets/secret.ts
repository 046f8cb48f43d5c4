/**
 * Secrets as values: read, decoded and checked as a whole. What gets this far can be given to the TLS
 * library. Plain data.
 *
 * @module
 */

import type { CertificatePair, Validation } from "../identity/mod.ts";

/** A certificate chain with its key. */
export interface CertificateSecret extends CertificatePair {
  readonly type: "certificate";
}

/** Whom we accept. */
export interface ValidationSecret {
  readonly type: "validation";
  readonly validation: Validation;
}

export type Secret = CertificateSecret | ValidationSecret;
export type SecretType = Secret["type"];
