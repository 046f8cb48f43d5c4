/**
 * Which secrets a listener or upstream needs and where each comes from: what configuration becomes.
 * Plain data; equal references share one subscription.
 *
 * @module
 */

import type { Address } from "../base/mod.ts";
import type { OnDemandRules } from "../identity/mod.ts";
import type { TlsDirection } from "../snapshot/mod.ts";
import type { SecretType } from "./secret.ts";
import type { CertificateSpec, SecretSpec, ValidationSpec, WatchedDirectory } from "./spec.ts";

/** How to reach an SDS server. A name keeps it apart from others in logs, metrics and `/certs`. */
export interface SdsServer {
  /** Envoy's cluster name, e.g. `sds_cluster`. */
  readonly name: string;
  /** Tried in order, from the next one on after a failure. Not empty. */
  readonly addresses: readonly Address[];
  /** `null`: plain text, for unix sockets and loopback. */
  readonly tls: {
    /** Checked against the server's certificate, and sent as SNI. */
    readonly serverName: string;
    /** Files or inline only: credentials for SDS cannot come from SDS. */
    readonly validation: ValidationSpec;
    readonly certificate?: CertificateSpec;
  } | null;
  /** Sent with every stream: lower-case names. Never logged. */
  readonly metadata: Readonly<Record<string, string>>;
  /** HTTP/2 PING after this much silence; default 30 s, with 5 s to answer. */
  readonly keepAliveMs: number;
  readonly keepAliveTimeoutMs: number;
  /** Back-off between streams: full jitter; 500 ms doubling to 30 s unless configured (envoy.md 1.6). */
  readonly backoffBaseMs: number;
  readonly backoffMaxMs: number;
  /** Who we say we are; both must be non-empty. */
  readonly node: SdsNode;
}

export interface SdsNode {
  readonly id: string;
  readonly cluster: string;
  /** JSON values. */
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly locality?: { readonly region: string; readonly zone: string; readonly subZone: string };
}

/** `auto`: delta, and state of the world where the server does not know it (SPIRE). */
export type SdsApi = "sotw" | "delta" | "auto";

/** Where a secret comes from. `consul`: the agent's leaf or roots; the snapshot knows those itself. */
export type SecretSource =
  | { readonly kind: "consul" }
  /** Described by the configuration itself; its files are watched. */
  | { readonly kind: "spec"; readonly spec: SecretSpec; readonly watch: boolean }
  /** Envoy's `path_config_source`: YAML or JSON with one `Secret`. */
  | {
    readonly kind: "secret_file";
    readonly path: string;
    readonly watchedDirectory?: WatchedDirectory;
  }
  | { readonly kind: "sds"; readonly server: SdsServer; readonly api: SdsApi }
  | {
    readonly kind: "workload";
    readonly address: Address;
    /** Which of several SVIDs; neither: the one in use, at first the first. */
    readonly id?: string;
    readonly hint?: string;
    /** Default {@link WITHDRAWAL_GRACE_MS}; 0: none. */
    readonly withdrawalGraceMs?: number;
  };

/** One secret wanted. */
export interface SecretRef {
  readonly type: SecretType;
  /** The secret's name at its source (SDS), or a name for people: the path of a file. */
  readonly name: string;
  readonly source: SecretSource;
  /** How long its listener or upstream waits for it before it opens without; 0: for ever. */
  readonly initialFetchTimeoutMs: number;
  /** Of a validation: what arrives is merged onto this before it is decoded ({@link ValidationRef}). */
  readonly defaults?: ValidationSpec;
}

/** Envoy's default (`initial_fetch_timeout`). */
export const INITIAL_FETCH_TIMEOUT_MS = 15_000;
/**
 * What a Workload API has taken back is used for this long, since a registration entry that is replaced
 * is deleted first.
 */
export const WITHDRAWAL_GRACE_MS = 2_000;

/** Whom to accept: a secret, onto what the configuration says itself (`combined_validation_context`). */
export interface ValidationRef {
  readonly secret: SecretRef;
  /** Merged with what arrives: single values of the secret win, lists join, booleans are or-ed. */
  readonly defaults?: ValidationSpec;
}

/** Certificates fetched when a client asks for their name. */
export interface OnDemandPlan {
  /** The secret's name is the SNI; `source` must be `sds`. */
  readonly source: SecretSource;
  readonly rules: OnDemandRules;
  /** Fetched at start without holding up the listener. */
  readonly prefetch: readonly string[];
  /** For clients that name nobody; `undefined`: they are refused. */
  readonly defaultName?: string;
}

export const DEFAULT_ON_DEMAND_RULES: OnDemandRules = {
  names: [],
  suffixes: [],
  maxEntries: 1_000,
  negativeTtlMs: 30_000,
  perSourceRate: 10,
  maxPending: 100,
  waitMs: 8_000,
};

/** The credentials of one listener or upstream. */
export interface CredentialsPlan {
  /** The first is shown where no name fits. Empty: only `onDemand`; of an upstream: none is shown. */
  readonly certificates: readonly SecretRef[];
  /** `null`: a server that asks nobody for a certificate. Never of an upstream. */
  readonly validation: ValidationRef | null;
  /** False, with a validation: a client may come without one, and is anonymous then. */
  readonly requireClientCertificate: boolean;
  /** One is required, too, where the rules that come are SPIFFE's. */
  readonly requireForSpiffe?: true;
  readonly onDemand: OnDemandPlan | null;
  /** Absent: the proxy's own. */
  readonly tls?: TlsDirection;
}
