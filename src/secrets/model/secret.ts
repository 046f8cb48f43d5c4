/**
 * Secrets as values: decoded and checked as a whole, so that the TLS library can take them; and what the
 * store holds and reports of them. Plain data.
 *
 * @module
 */

import type { CertificatePair, OnDemandRules, Validation } from "../../identity/mod.ts";
import type { TlsDirection } from "../../snapshot/mod.ts";

/** A certificate chain with its key. */
export interface CertificateSecret extends CertificatePair {
  readonly type: "certificate";
}

/** Which peers are accepted. */
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

/** An event of one secret, for `/events`. */
export interface SecretEvent {
  /** Wall clock. */
  readonly atMs: number;
  readonly kind:
    | "loaded"
    | "restored"
    | "rotated"
    | "rejected"
    | "unreachable"
    | "recovered"
    | "removed"
    | "timed_out";
  readonly name: string;
  readonly source: string;
  /** Serial and dates, or the reason. */
  readonly detail: string;
}
