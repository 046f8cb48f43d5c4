/**
 * The parts of a secret and where their bytes are, for every origin: our own configuration, an Envoy
 * secret file, an SDS server, the Workload API. Names follow Envoy's `TlsCertificate` and
 * `CertificateValidationContext`. Plain data.
 *
 * @module
 */

import type { PeerRules } from "../../identity/mod.ts";

/** Envoy's `DataSource`. */
export type DataSource =
  /** Read again when it changes. */
  | { readonly kind: "file"; readonly path: string }
  | { readonly kind: "inline"; readonly bytes: Uint8Array }
  | { readonly kind: "environment"; readonly variable: string };

/** Watched in place of the files' own directories; `watchModify` also watches writes in place. */
export interface WatchedDirectory {
  readonly path: string;
  readonly watchModify: boolean;
}

export interface CertificateSpec {
  readonly type: "certificate";
  /** PEM: leaf, then intermediates. Either chain and key, or `pkcs12`, which has both. */
  readonly chain?: DataSource;
  /** PEM: PKCS#8, SEC1 or PKCS#1; encrypted keys need a password. */
  readonly key?: DataSource;
  /** DER (RFC 7292). */
  readonly pkcs12?: DataSource;
  readonly password?: DataSource;
  /** DER. Refused: the engine cannot serve one. */
  readonly ocspStaple?: DataSource;
  readonly watchedDirectory?: WatchedDirectory;
}

/** Trust bundles of several trust domains, for Envoy's SPIFFE validator. */
export type SpiffeBundlesSpec =
  /** JSON: `{"trust_domains": {"td": {"keys": [...]}}}`; a domain that is named twice is refused. */
  | { readonly kind: "map"; readonly source: DataSource }
  | {
    readonly kind: "domains";
    readonly domains: readonly {
      readonly name: string;
      /** PEM with certificates and CRLs. */
      readonly bundle: DataSource;
      /** Trust domain of the leaves that this bundle verifies; default `name`. */
      readonly workloadTrustDomain?: string;
    }[];
  };

export interface ValidationSpec {
  readonly type: "validation";
  /** PEM. */
  readonly trustedCa?: DataSource;
  /** The system's roots are anchors, too. */
  readonly systemRoots: boolean;
  /** PEM, or one list in DER. */
  readonly crl?: DataSource;
  /** SPIFFE's rules decide; `trustedCa` must be absent. */
  readonly spiffe?: SpiffeBundlesSpec;
  /** `crlPems` is filled when `crl` is read. */
  readonly rules: PeerRules;
  readonly watchedDirectory?: WatchedDirectory;
}

export type SecretSpec = CertificateSpec | ValidationSpec;
