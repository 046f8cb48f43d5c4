/**
 * What is true now: plain, immutable data that the data path acts on. It consists of keyed parts, each
 * with a version that changes exactly when its content does, so that a worker is sent only what
 * changed. Replaced whole; never edited.
 *
 * @module
 */

import type { Endpoint, LoadBalancing, OutlierPolicy } from "../balance/mod.ts";
import type { Address, BindAddress } from "../base/mod.ts";
import type { Policy } from "../policy/mod.ts";

/** Parts carry the version of their content. */
export interface Part {
  readonly version: number;
}

/** Our identity and whom we trust; validated as a whole before it gets here. */
export interface CredentialsPart extends Part {
  /** Leaf first, then intermediates, as PEM. */
  readonly certPem: string;
  /** Private key of the leaf, PEM. Never shown anywhere. */
  readonly keyPem: string;
  /** Every root in force, PEM, one certificate each. */
  readonly rootPems: readonly string[];
  /** Lower-case trust domains in force: the roots reply's, plus external ones of its roots. */
  readonly trustDomains: readonly string[];
  /** SPIFFE URI of the leaf. */
  readonly uri: string;
  /** Serial of the leaf as Consul writes it, for people. */
  readonly serial: string;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

export interface PolicyPart extends Part, Policy {}

export type TlsVersion = "TLSv1.2" | "TLSv1.3";

/** From the mesh config entry's TLS block; the defaults are 1.2 to 1.3 and the engine's suites. */
export interface TlsDirection {
  readonly minVersion: TlsVersion;
  readonly maxVersion: TlsVersion;
  /** OpenSSL names, for TLS 1.2 only; empty means the engine's own choice. */
  readonly cipherSuites: readonly string[];
}

export interface TlsPart extends Part {
  readonly incoming: TlsDirection;
  readonly outgoing: TlsDirection;
  /** Also demand that the chain's CA certificates name the trust domain (`-strict-spiffe-chain`). */
  readonly strictSpiffeChain: boolean;
}

/** The public listener: where other sidecars connect, and the local service behind it. */
export interface InboundPart extends Part {
  readonly bind: Extract<BindAddress, { kind: "tcp" }>;
  readonly local: Address;
  readonly localConnectTimeoutMs: number;
  readonly handshakeTimeoutMs: number;
  /** 0 means no limit of its own. */
  readonly maxConnections: number;
  /** `both`: the agent's authorize call must allow each connection, too. */
  readonly authorize: "match" | "both";
}

/** A declared upstream: a listener for the local app and where its connections may go. */
export interface UpstreamPart extends Part {
  /** Stable key, e.g. `service:default/default/db` or `prepared_query:geo-db`. */
  readonly id: string;
  /** Destination name, for logs and metrics. */
  readonly name: string;
  readonly bind: BindAddress;
  /** Keys into {@link Snapshot.targets}, primary first, then in failover order. */
  readonly targets: readonly string[];
  readonly balancing: LoadBalancing;
  readonly outlier: OutlierPolicy;
  /** Connections open at once over all targets; Envoy's default is 1024, 0 allows none. */
  readonly maxConnections: number;
  /** Connections waiting to be dialled; default 1024. */
  readonly maxPending: number;
  /** No byte either way for this long ends a connection; 0 is never. */
  readonly idleTimeoutMs: number;
  /** A connection never lives longer; 0 is for ever. */
  readonly lifetimeMs: number;
}

/** Where a resolver ends: the endpoints, and who must answer there. */
export interface TargetPart extends Part {
  readonly key: string;
  /** Sent in the ClientHello. */
  readonly sni: string;
  /** The server must prove one of these SPIFFE URIs. */
  readonly spiffeUris: readonly string[];
  readonly connectTimeoutMs: number;
  readonly endpoints: readonly Endpoint[];
  /**
   * Endpoints before the list turned empty, dialled only when failover has nothing either: a stopping
   * agent empties its instances for everyone (consul_live 10.1).
   */
  readonly lastResort: readonly Endpoint[];
}

/** An upstream or feature that was not taken, and why. Shown by the admin server and the log. */
export interface Refusal {
  readonly what: string;
  readonly reason: string;
}

export interface Snapshot {
  /** Rises with every published snapshot. */
  readonly version: number;
  /** The service this proxy stands for: `web`. */
  readonly service: string;
  readonly proxyId: string;
  readonly datacenter: string;
  readonly credentials: CredentialsPart;
  readonly policy: PolicyPart;
  readonly tls: TlsPart;
  /** `null`: no public listener (port 0, or an outbound-only flag mode). */
  readonly inbound: InboundPart | null;
  readonly upstreams: Readonly<Record<string, UpstreamPart>>;
  readonly targets: Readonly<Record<string, TargetPart>>;
  readonly refused: readonly Refusal[];
}

/** What changed between two snapshots: parts that are new or have another version, keys that went. */
export interface SnapshotUpdate {
  readonly version: number;
  readonly service: string;
  readonly proxyId: string;
  readonly datacenter: string;
  readonly credentials?: CredentialsPart;
  readonly policy?: PolicyPart;
  readonly tls?: TlsPart;
  readonly inbound?: InboundPart | null;
  readonly upstreams: Readonly<Record<string, UpstreamPart | null>>;
  readonly targets: Readonly<Record<string, TargetPart | null>>;
  readonly refused: readonly Refusal[];
}
