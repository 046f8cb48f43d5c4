/** Secrets as plain data, decoded and checked; their status; and the places of their parts. @module */

import type { CertificatePair, OnDemandRules, PeerRules, Validation } from "../../identity/mod.ts";
import type { TlsDirection } from "../../snapshot/mod.ts";

export interface CertificateSecret extends CertificatePair {
  readonly type: "certificate";
}

export interface ValidationSecret {
  readonly type: "validation";
  readonly validation: Validation;
}

export type Secret = CertificateSecret | ValidationSecret;
export type SecretType = Secret["type"];

/** A secret in use and its source. */
export interface HeldSecret<T> {
  /** Stable while the reference is the same; begins with the kind of its source. */
  readonly key: string;
  readonly name: string;
  /** For people: `file /etc/tls/web.pem`, `sds sds_cluster`, `workload unix:///run/spire.sock`. */
  readonly source: string;
  readonly value: T;
}

export type CredentialsState =
  /** The listener or upstream does not open yet. */
  | { readonly kind: "warming"; readonly waitingFor: readonly string[] }
  /**
   * Every secret is there, or its initial fetch timeout has passed. `missing` names absent secrets with
   * the reason; while it is not empty, every connection is refused (envoy.md 1.5).
   */
  | {
    readonly kind: "open";
    /** Keys of the certificates that are there, in the plan's order, on-demand ones last; `MESH_KEY` is the agent's. */
    readonly certificates: readonly string[];
    readonly validation: string | null;
    readonly missing: readonly string[];
    readonly requireClientCertificate: boolean;
    readonly onDemand: OnDemandRules | null;
    readonly defaultName?: string;
    readonly tls?: TlsDirection;
  };

export interface HeldSecrets {
  readonly certificates: Readonly<Record<string, HeldSecret<CertificateSecret>>>;
  readonly validations: Readonly<Record<string, HeldSecret<ValidationSecret>>>;
  /** By the keys that `follow` was given. */
  readonly credentials: Readonly<Record<string, CredentialsState>>;
}

/** One secret for `/certs` and `/config_dump`, without key material. */
export interface SecretStatus {
  readonly key: string;
  readonly type: SecretType;
  readonly name: string;
  readonly source: string;
  readonly state: "active" | "warming" | "missing";
  /** The source's version; "uninitialized" before the first value. */
  readonly version: string;
  /** Wall clock of the last accepted change; 0: none yet. */
  readonly updatedMs: number;
  /** Why the last attempt failed; "": it did not. */
  readonly fault: string;
  /** The certificate that is held. */
  readonly certificate?: Pick<
    CertificateSecret,
    "serial" | "dnsNames" | "uris" | "notBeforeMs" | "notAfterMs"
  >;
}

/**
 * Envoy's `DataSource`. The parts have the names of Envoy's `TlsCertificate` and
 * `CertificateValidationContext`, for every origin.
 */
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
