/**
 * What is true now: plain, immutable data that the data path acts on. It consists of keyed parts, each
 * with a version that changes exactly when its content does, so that a worker is sent only what
 * changed. Replaced whole; never edited.
 *
 * @module
 */

import type { Endpoint, LoadBalancing, OutlierPolicy } from "../balance/mod.ts";
import type { Address, BindAddress } from "../base/mod.ts";
import type { HashPolicy, RouteMatch } from "../chain/mod.ts";
import type { PathRules } from "../http/mod.ts";
import type { HeaderChanges, LogFormat } from "../http/mod.ts";
import type { CertificatePair, OnDemandRules, Validation } from "../identity/mod.ts";
import type { IntentionPolicy } from "../policy/mod.ts";

/** Parts carry the version of their content. */
export interface SnapshotPart {
  readonly version: number;
}

/**
 * The proxy's own identity and whom it trusts, for every listener and upstream without credentials of
 * their own; validated as a whole before it gets here.
 */
export interface CredentialsPart extends SnapshotPart {
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

/** A certificate chain with its key that did not come with {@link CredentialsPart}. */
export interface CertificatePart extends SnapshotPart, CertificatePair {
  readonly name: string;
  /** For people: `file /etc/tls/web.pem`, `sds sds_cluster`. */
  readonly source: string;
}

/** Whom a listener or upstream accepts that does not go by {@link CredentialsPart}. */
export interface ValidationPart extends SnapshotPart {
  readonly name: string;
  readonly source: string;
  readonly validation: Validation;
}

/** Stands for the certificate or the roots of {@link CredentialsPart} in {@link OwnCredentialsPart}. */
export const MESH_KEY = "consul";

/** Credentials of one listener or upstream: which certificates it shows and whom it accepts. */
export interface OwnCredentialsPart extends SnapshotPart {
  /** Keys into {@link Snapshot.certificates}, or {@link MESH_KEY}; the first is shown where none fits. */
  readonly certificates: readonly string[];
  /** Key into {@link Snapshot.validations}, or {@link MESH_KEY}; `null`: nobody is asked for a certificate. */
  readonly validation: string | null;
  /** Secrets that it cannot do without and that are not there, and why: every connection is refused. */
  readonly missing: readonly string[];
  readonly requireClientCertificate: boolean;
  /** Certificates are also fetched when a client asks for their name. */
  readonly onDemand: OnDemandRules | null;
  /** The secret for clients that name nobody; of `onDemand` only. */
  readonly defaultName: string | null;
  /** `null`: those of {@link TlsPart}. */
  readonly tls: TlsDirection | null;
  /** Lower case: a peer with a Consul service id of one of these is that service to the intentions. */
  readonly trustDomains: readonly string[];
}

export interface PolicyPart extends SnapshotPart, IntentionPolicy {}

export type TlsVersion = "TLSv1.2" | "TLSv1.3";

/**
 * TLS versions and suites: the mesh config entry's TLS block, or those of one listener or upstream. The
 * defaults are 1.2 to 1.3 and the engine's suites.
 */
export interface TlsDirection {
  readonly minVersion: TlsVersion;
  readonly maxVersion: TlsVersion;
  /** OpenSSL names, for TLS 1.2 only; empty means the engine's own choice. */
  readonly cipherSuites: readonly string[];
}

export interface TlsPart extends SnapshotPart {
  readonly incoming: TlsDirection;
  readonly outgoing: TlsDirection;
  /** Also demand that the chain's CA certificates name the trust domain (`-strict-spiffe-chain`). */
  readonly strictSpiffeChain: boolean;
}

/** What is spoken over a connection; `tcp`: bytes are carried as they are. */
export type Protocol = "tcp" | "http" | "http2" | "grpc";

/** How a listener that understands HTTP treats requests. */
export interface HttpRules {
  /** What the application or upstream behind it speaks: `http` is HTTP/1.1, the others are HTTP/2. */
  readonly protocol: Exclude<Protocol, "tcp">;
  readonly path: PathRules;
  /** `X-Forwarded-Client-Cert` of callers is dropped, and none is added. */
  readonly sanitizeForwardedClientCert: boolean;
  /** Of a request's head, its first line included. */
  readonly headBytes: number;
  /** From the end of a request to that of its response; 0: none. */
  readonly requestTimeoutMs: number;
  /** No byte of an exchange either way for this long ends it; 0: never. */
  readonly streamIdleTimeoutMs: number;
  /** Shows a denied caller the rule (`postern_show_denials`). */
  readonly showDenials: boolean;
}

/** A plugin in a listener's list. */
export interface PluginUse {
  /** As it was written: the name of one that is inside the executable, or a path. */
  readonly plugin: string;
  /** Of a path: what runs. */
  readonly file?: PluginFile;
  /** As it was written; its plugin judges it. */
  readonly config: unknown;
  /** `skip`: where it fails a request goes on as if it were not there. */
  readonly onFailure: "refuse" | "skip";
  /** Where it was written: `inbound.plugins[0]`. */
  readonly at: string;
}

export interface PluginFile {
  /** Key into {@link Snapshot.pluginCode}. */
  readonly code: string;
  /** Modules of Node's that it may import: `node:crypto`. */
  readonly allow: readonly string[];
}

/** What a plugin's file and all that it imports were made into. Its key is the SHA-256 of the text. */
export interface PluginCodePart extends SnapshotPart {
  /** Body of a function of `module`, `exports` and `require`; `module.exports` may be a promise. */
  readonly text: string;
  /** Of the file, for stack traces. */
  readonly path: string;
  /** Leads from the text back to the sources (source map 3, as JSON); `""`: it would be too long. */
  readonly map: string;
  /** Of those inside the executable, which it imports. */
  readonly libraries: readonly string[];
}

/** Where a line for each exchange, and each plain connection, is written. */
export interface AccessLogPart extends SnapshotPart {
  readonly to: AccessLogTarget;
  readonly format: LogFormat;
  /** Also of connections that an HTTP listener refused before there was a request. */
  readonly listeners: boolean;
}

export type AccessLogTarget =
  | { readonly kind: "stdout" | "stderr" }
  | { readonly kind: "file"; readonly path: string };

/** Key of the public listener in {@link Snapshot.inbound}, which is its name, too. */
export const INBOUND_KEY = "inbound";

/** A listener for callers of the service: where other sidecars connect, and what is behind it. */
export interface InboundPart extends SnapshotPart {
  readonly bind: Extract<BindAddress, { kind: "tcp" }>;
  readonly local: Address;
  /** `null`: connections are carried as they are. */
  readonly http: HttpRules | null;
  /** What verifies tokens, before intentions that demand some are asked; absent: none does. */
  readonly tokens?: PluginUse;
  /** What stands around its connections and requests, in the order of configuration. */
  readonly plugins: readonly PluginUse[];
  readonly localConnectTimeoutMs: number;
  readonly handshakeTimeoutMs: number;
  /** 0 means no limit of its own. */
  readonly maxConnections: number;
  /** `both`: the agent's authorize call must allow each connection, too. */
  readonly authorize: "match" | "both";
  /** Key into {@link Snapshot.ownCredentials}; `null`: the proxy's own. */
  readonly credentials: string | null;
}

/**
 * A path of the local service for callers outside the mesh, without TLS and intentions: metrics for
 * everybody, health checks for the agent.
 */
export interface ExposedPart extends SnapshotPart {
  readonly bind: Extract<BindAddress, { kind: "tcp" }>;
  /** Requests for exactly this path go on, whatever their query; there is nothing else here. */
  readonly path: string;
  /** IP addresses that may call, in canonical spelling, besides loopback; absent: everybody may. */
  readonly onlyFrom?: readonly string[];
  readonly local: Address;
  readonly localConnectTimeoutMs: number;
  readonly http: HttpRules;
}

/** A declared upstream: the listener for what goes there. */
export interface UpstreamPart extends SnapshotPart {
  /** Stable key, e.g. `service:default/default/db` or `prepared_query:geo-db`. */
  readonly id: string;
  /** Destination name, for logs and metrics. */
  readonly name: string;
  /** `null`: nothing of its own, {@link EdgePart} leads here. */
  readonly bind: BindAddress | null;
  /** Where it goes. Key into {@link Snapshot.chains}. */
  readonly chain: string;
  /** `null`: connections are carried as they are. */
  readonly http: HttpRules | null;
  /** As those of {@link InboundPart}. */
  readonly plugins: readonly PluginUse[];
  /** Connections open at once over all targets; Envoy's default is 1024, 0 allows none. */
  readonly maxConnections: number;
  /** Connections of callers that speak HTTP, open at once; absent: no limit of their own. */
  readonly maxClientConnections?: number;
  /** Connections waiting to be dialled; default 1024. */
  readonly maxPending: number;
  /** Requests open at once over all targets, of HTTP only; default 1024. */
  readonly maxRequests: number;
  /** No byte either way for this long ends a connection; 0 is never. */
  readonly idleTimeoutMs: number;
  /** A connection never lives longer; 0 is for ever. */
  readonly lifetimeMs: number;
  /** For dialling. Key into {@link Snapshot.ownCredentials}; `null`: the proxy's own. */
  readonly credentials: string | null;
  /** TLS that callers must speak; `null`: they speak plainly, as a local app does. */
  readonly listener: {
    /** Key into {@link Snapshot.ownCredentials}. */
    readonly credentials: string;
    readonly handshakeTimeoutMs: number;
  } | null;
}

/** A listener for callers outside the mesh that leads to several upstreams, by the host they ask for. */
export interface EdgePart extends SnapshotPart {
  /** Stable key: `ingress:8080`. */
  readonly id: string;
  readonly bind: Extract<BindAddress, { kind: "tcp" }>;
  readonly http: HttpRules;
  /** As those of {@link InboundPart}. */
  readonly plugins: readonly PluginUse[];
  /** As an upstream's. */
  readonly listener: UpstreamPart["listener"];
  readonly hosts: readonly EdgeHost[];
}

export interface EdgeHost {
  /**
   * What the host of a request may be, lower case: `shop.example`, `*.example`, `shop.ingress.*` or `*`;
   * one without a port also stands for itself with the listener's. The most exact name counts.
   */
  readonly names: readonly string[];
  /** Key into {@link Snapshot.upstreams}; where that is missing nobody can be reached. */
  readonly upstream: string;
  /** Of requests for these hosts, and of what is answered. */
  readonly requestHeaders?: HeaderChanges;
  readonly responseHeaders?: HeaderChanges;
}

/** What a discovery chain compiled to. */
export interface ChainPart extends SnapshotPart {
  /** The first that matches; the last takes what no other did, and all plain connections. */
  readonly routes: readonly ChainRoute[];
  readonly resolvers: Keyed<Resolver>;
}

export interface ChainRoute {
  /** Unique in its chain. */
  readonly name: string;
  readonly service: string;
  /** `null`: takes everything. */
  readonly match: RouteMatch | null;
  /** Never empty; which of them is left to chance. */
  readonly splits: readonly Split[];
  /** What of a request keeps it with one endpoint; empty: nothing. */
  readonly hash: readonly HashPolicy[];
  /** What is asked of plugins on it, by their names. */
  readonly plugins: Readonly<Record<string, unknown>>;
}

export interface Split {
  /** Its share of all of the route's, above 0. */
  readonly weight: number;
  /** Key into {@link ChainPart.resolvers}. */
  readonly resolver: string;
  /** What is asked of plugins on it, in place of what its route asks; absent: the same. */
  readonly plugins?: Readonly<Record<string, unknown>>;
}

export interface Resolver {
  /** Keys into {@link Snapshot.targets}, primary first, then in failover order. */
  readonly targets: readonly string[];
  readonly balancing: LoadBalancing;
  readonly outlier: OutlierPolicy;
}

/** Where a resolver ends: the endpoints, and who must answer there. */
export interface TargetPart extends SnapshotPart {
  readonly key: string;
  /** Sent in the ClientHello. */
  readonly sni: string;
  /**
   * As Consul names the cluster to Envoy, for statistics and the admin server; {@link clusterNames} adds
   * what a place among failover targets adds.
   */
  readonly cluster: string;
  /** The server must prove one of these SPIFFE URIs, unless credentials of the upstream's own say who may answer. */
  readonly spiffeUris: readonly string[];
  readonly connectTimeoutMs: number;
  readonly endpoints: readonly Endpoint[];
  /** Registered, and not to be dialled: only shown. */
  readonly unhealthy: readonly Endpoint[];
  /**
   * Endpoints before the list turned empty, dialled only when failover has nothing either: a stopping
   * agent empties its instances for everyone (consul_live 10.1).
   */
  readonly lastResort: readonly Endpoint[];
  /** Why {@link endpoints} has nobody, for people; `""`: it has. */
  readonly lack: string;
}

/** An upstream or feature that was not taken, and why. Shown by the admin server and the log. */
export interface Refusal {
  readonly what: string;
  readonly reason: string;
  /** The upstream that is not served for this reason; absent: something else was not taken. */
  readonly upstream?: Pick<UpstreamPart, "id" | "name" | "bind">;
}

/** Kinds of which there is one part. */
export interface SingleParts {
  /** `null`: a configuration file in which everything has credentials of its own. */
  readonly credentials: CredentialsPart | null;
  readonly policy: PolicyPart;
  readonly tls: TlsPart;
  /** `null`: nobody wants one. */
  readonly accessLog: AccessLogPart | null;
}

/** Kinds of which there are many parts, by key. */
export interface KeyedParts {
  readonly certificates: CertificatePart;
  readonly validations: ValidationPart;
  readonly ownCredentials: OwnCredentialsPart;
  /** By the listener's name; empty: no public listener (port 0, or an outbound-only flag mode). */
  readonly inbound: InboundPart;
  /** By the listener's name: `exposed:21500`. */
  readonly exposed: ExposedPart;
  readonly upstreams: UpstreamPart;
  readonly edges: EdgePart;
  readonly chains: ChainPart;
  readonly targets: TargetPart;
  readonly pluginCode: PluginCodePart;
}

/** Whose state it is: small, and always sent whole. */
export interface SnapshotFacts {
  /** Rises with every published snapshot. */
  readonly version: number;
  /** The service this proxy stands for: `web`. */
  readonly service: string;
  readonly proxyId: string;
  readonly datacenter: string;
}

/** Parts of every key of a kind. */
export type Keyed<T> = Readonly<Record<string, T>>;

export type Snapshot =
  & SnapshotFacts
  & SingleParts
  & { readonly [Kind in keyof KeyedParts]: Keyed<KeyedParts[Kind]> };
