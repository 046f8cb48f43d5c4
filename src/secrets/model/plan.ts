/** The secrets that a listener or upstream needs, their sources, and the providers of these. @module */

import type { Address } from "../../base/mod.ts";
import type { OnDemandRules } from "../../identity/mod.ts";
import type { TlsDirection } from "../../snapshot/mod.ts";
import type { XdsNode } from "../../xds/mod.ts";
import type {
  CertificateSpec,
  Secret,
  SecretSpec,
  SecretType,
  ValidationSpec,
  WatchedDirectory,
} from "./secret.ts";

export interface SdsServer {
  /** Unique, for logs, metrics and `/certs`; Envoy's cluster name, e.g. `sds_cluster`. */
  readonly name: string;
  /** Tried in order; after a failure the next one is tried first. Not empty. */
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
  /** Silence before an HTTP/2 PING; default 30 s, with 5 s for the answer. */
  readonly keepAliveMs: number;
  readonly keepAliveTimeoutMs: number;
  /** Backoff between streams: full jitter; default 500 ms doubling to 30 s (envoy.md 1.6). */
  readonly backoffBaseMs: number;
  readonly backoffMaxMs: number;
  /** Our own name at the server; `id` and `cluster` are not empty. */
  readonly node: XdsNode;
}

/** `auto`: delta, and state of the world with a server that does not implement delta (SPIRE). */
export type SdsApi = "sotw" | "delta" | "auto";

/** The source of a secret. `consul`: the agent's leaf or roots, which the snapshot has itself. */
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
    /** Selects among several SVIDs; default: the one in use, at first the first. */
    readonly id?: string;
    readonly hint?: string;
    /** Default {@link WITHDRAWAL_GRACE_MS}; 0: none. */
    readonly withdrawalGraceMs?: number;
  };

export type ExternalSource = Exclude<SecretSource, { kind: "consul" }>;

export interface SecretRef {
  readonly type: SecretType;
  /** The secret's name at its source (SDS), or a name for people: the path of a file. */
  readonly name: string;
  readonly source: SecretSource;
  /** How long its listener or upstream waits for it before it opens without; 0: for ever. */
  readonly initialFetchTimeoutMs: number;
  /** A validation that arrives is merged onto this before it is decoded ({@link ValidationRef}). */
  readonly defaults?: ValidationSpec;
}

export type ExternalRef = SecretRef & { readonly source: ExternalSource };

/** Envoy's default (`initial_fetch_timeout`). */
export const INITIAL_FETCH_TIMEOUT_MS = 15_000;
/**
 * An SVID that the Workload API withdraws stays in use for this long: the agent deletes a registration
 * entry before it replaces it.
 */
export const WITHDRAWAL_GRACE_MS = 2_000;

/** A validation and the configuration's own part of it (`combined_validation_context`). */
export interface ValidationRef {
  readonly secret: SecretRef;
  /** Merged with the secret: the secret's single values win, lists are joined, booleans are or-ed. */
  readonly defaults?: ValidationSpec;
}

export interface OnDemandPlan {
  /** The secret's name is the SNI; `source` must be `sds`. */
  readonly source: SecretSource;
  readonly rules: OnDemandRules;
  /** Fetched at start; the listener does not wait for them. */
  readonly prefetch: readonly string[];
  /** For clients without SNI; `undefined`: they are refused. */
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

export interface CredentialsPlan {
  /** The first is the default certificate. Empty: only `onDemand`; for an upstream: no certificate. */
  readonly certificates: readonly SecretRef[];
  /** `null`: a server that requests no client certificate. Never for an upstream. */
  readonly validation: ValidationRef | null;
  /** False, with a validation: a client without a certificate is accepted as anonymous. */
  readonly requireClientCertificate: boolean;
  /** A client certificate is also required once the validation turns out to be SPIFFE's. */
  readonly requireForSpiffe?: true;
  readonly onDemand: OnDemandPlan | null;
  /** Absent: the proxy's own. */
  readonly tls?: TlsDirection;
}

/** All that a provider sees, repetitions included; `store/subscription.ts` decides which are changes. */
export interface SecretEvents {
  /** A checked value, new or repeated. `version`: the source's own; "": it has none. */
  onSecret(secret: Secret, version: string): void;
  /**
   * A value arrived or was read that cannot be used; the value before stays. `reason` names the file or
   * resource and never contains key material.
   */
  onRejected(reason: string): void;
  /** The last reported value is current and good: every fault reported since is over. */
  onRecovered(): void;
  /** The source cannot be reached or read now. Does not end the wait for a first value (envoy.md 1.5). */
  onUnreachable(reason: string): void;
  /** The source answers: an outage is over. A rejection before it still holds. */
  onReached(): void;
  /** The source denies us every secret before it gave one: a restored value goes, a first value is awaited. */
  onDenied(reason: string): void;
  /** The source has no such secret: delta removal, a withdrawn SVID. `reason`: the source's details. */
  onRemoved(reason?: string): void;
}

export type FileEvents = Pick<SecretEvents, "onSecret" | "onRejected" | "onRecovered">;

export interface SecretWatch {
  /**
   * Reads the source again at once, where it can be read. Resolves when its state is reported; does not
   * wait for a server.
   */
  refresh(): void | Promise<void>;
  close(): void;
}

/** Follows secrets of one source. Owns its sockets, timers and watches; `close` ends them all. */
export interface SecretProvider {
  /** Events come later, never before this returns. */
  watch(ref: SecretRef, events: SecretEvents): SecretWatch;
  close(): Promise<void>;
}

export type ProviderFactory = (source: ExternalSource) => SecretProvider;
