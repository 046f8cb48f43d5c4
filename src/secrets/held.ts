/**
 * What the store holds now: immutable, replaced whole with every change; and what it tells people.
 *
 * @module
 */

import type { TlsDirection } from "../snapshot/mod.ts";
import type { OnDemandRules } from "../identity/mod.ts";
import type { CertificateSecret, SecretType, ValidationSecret } from "./secret.ts";

/** A secret in use and where it came from. */
export interface HeldSecret<T> {
  /** Stable while the reference is the same; begins with the kind of its source. */
  readonly key: string;
  readonly name: string;
  /** For people: `file /etc/tls/web.pem`, `sds sds_cluster`, `workload unix:///run/spire.sock`. */
  readonly source: string;
  readonly value: T;
}

export type CredentialsState =
  /** Its listener or upstream does not open yet. */
  | { readonly kind: "warming"; readonly waitingFor: readonly string[] }
  /**
   * All there, or waited for long enough. `missing` names what is not there, and why: non-empty means that
   * every connection is refused until it is (envoy.md 1.5).
   */
  | {
    readonly kind: "open";
    /** Keys, in the plan's order, of those that are there; on-demand ones follow. `MESH_KEY` stands for the mesh's. */
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
  /** The source's own; "uninitialized" before the first. */
  readonly version: string;
  /** Wall clock of the last accepted change; 0: none yet. */
  readonly updatedMs: number;
  /** Why the last try failed; "" where it did not. */
  readonly fault: string;
  /** Present of certificates that are there. */
  readonly certificate?: {
    readonly serial: string;
    readonly dnsNames: readonly string[];
    readonly uris: readonly string[];
    readonly notBeforeMs: number;
    readonly notAfterMs: number;
  };
}

/** Something that happened to a secret, for `/events`. */
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
