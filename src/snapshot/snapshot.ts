/** The state as immutable parts, each with a version that changes with its content. @module */

import type { Endpoint, LoadBalancing, OutlierPolicy } from "../balance/mod.ts";
import type { Address, BindAddress } from "../base/mod.ts";
import type { HashPolicy, RouteMatch } from "../chain/mod.ts";
import type { HeaderChanges, LogFormat, PathRules } from "../http/mod.ts";
import type { CertificatePair, OnDemandRules, Validation } from "../identity/mod.ts";
import type { LogSamplingRule, TelemetryPart, TracingPart } from "./tracing_part.ts";
import type { IntentionPolicy } from "../policy/mod.ts";

export interface SnapshotPart {
  readonly version: number;
}

/** The proxy's identity and roots, for parts without credentials of their own. Validated together. */
export interface CredentialsPart extends SnapshotPart {
  /** Leaf first, then intermediates, as PEM. */
  readonly certPem: string;
  /** Private key of the leaf, PEM. Never shown anywhere. */
  readonly keyPem: string;
  /** Every root in force, PEM, one certificate each. */
  readonly rootPems: readonly string[];
  /** Lower-case trust domains in force: the roots reply's, plus external ones of its roots. */
  readonly trustDomains: readonly string[];
  readonly uri: string;
  /** Serial of the leaf as Consul writes it, for people. */
  readonly serial: string;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

/** A certificate chain with its key from a source other than {@link CredentialsPart}. */
export interface CertificatePart extends SnapshotPart, CertificatePair {
  readonly name: string;
  /** For people: `file /etc/tls/web.pem`, `sds sds_cluster`. */
  readonly source: string;
}

/** The peers that a listener or upstream accepts, where {@link CredentialsPart} does not decide. */
export interface ValidationPart extends SnapshotPart {
  readonly name: string;
  readonly source: string;
  readonly validation: Validation;
}

/** The key in {@link OwnCredentialsPart} for the certificate or the roots of {@link CredentialsPart}. */
export const MESH_KEY = "consul";

/** Credentials of one listener or upstream: the certificates that it shows and the peers that it accepts. */
export interface OwnCredentialsPart extends SnapshotPart {
  /** Keys into {@link Snapshot.certificates}, or {@link MESH_KEY}; the first is the default certificate. */
  readonly certificates: readonly string[];
  /** Key into {@link Snapshot.validations}, or {@link MESH_KEY}; `null`: no client certificate is requested. */
  readonly validation: string | null;
  /** Required secrets that are absent, with the reason; every connection is refused meanwhile. */
  readonly missing: readonly string[];
  readonly requireClientCertificate: boolean;
  /** Certificates are also fetched when a client sends their name as SNI. */
  readonly onDemand: OnDemandRules | null;
  /** The secret for clients without SNI; with `onDemand` only. */
  readonly defaultName: string | null;
  /** `null`: those of {@link TlsPart}. */
  readonly tls: TlsDirection | null;
  /** Lower case. Intentions apply to peers with a Consul service id of one of these domains. */
  readonly trustDomains: readonly string[];
}

export interface PolicyPart extends SnapshotPart, IntentionPolicy {}

export type TlsVersion = "TLSv1.2" | "TLSv1.3";

/** TLS of the mesh entry, a listener or an upstream. Default: 1.2 to 1.3, the engine's suites. */
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

/** The protocol of a connection; `tcp`: bytes are carried unchanged. */
export type Protocol = "tcp" | "http" | "http2" | "grpc";

/** The content of `x-postern-denied-by` for a refused request: no field, the code, or the rule as well. */
export type ShownDenials = "off" | "code" | "rule";

/** How a listener that understands HTTP treats requests. */
export interface HttpRules {
  /** The protocol of the application or upstream: `http` is HTTP/1.1, the others are HTTP/2. */
  readonly protocol: Exclude<Protocol, "tcp">;
  readonly path: PathRules;
  /** `X-Forwarded-Client-Cert` of callers is dropped, and none is added. */
  readonly sanitizeForwardedClientCert: boolean;
  /** Limit for the head of a request, its first line included. */
  readonly headBytes: number;
  /** From the end of a request to the end of its response; 0: no timeout. */
  readonly requestTimeoutMs: number;
  /** An exchange ends after this long without a byte in either direction; 0: never. */
  readonly streamIdleTimeoutMs: number;
  /** For callers with an identity; at an upstream, whether the application gets the field. */
  readonly showDenials: ShownDenials;
}

export interface PluginUse {
  /** As written in the configuration: the name of a built-in plugin, or a path. */
  readonly plugin: string;
  /** Its name on this listener; absent: the plugin's own. */
  readonly as?: string;
  /** The code to run, where {@link plugin} is a path. */
  readonly file?: PluginFile;
  /** As written in the configuration; the plugin validates it. */
  readonly config: unknown;
  /** Its configuration for routes, by their names; absent: none. */
  readonly routes?: Readonly<Record<string, unknown>>;
  /** `skip`: when the plugin fails, the request continues without it. */
  readonly onFailure: "refuse" | "skip";
  /**
   * The list is for all proxies: a listener that carries bytes opens without the plugins that look at
   * requests. Absent: such a plugin is an error.
   */
  readonly isForAll?: true;
  /** Its place in the configuration: `inbound.plugins[0]`. */
  readonly at: string;
}

export interface PluginFile {
  /** Key into {@link Snapshot.pluginCode}. */
  readonly code: string;
  /** SHA-256 of the sources, or of the remote bundle, in hexadecimal digits. */
  readonly digest: string;
  /** The configuration demands this digest. */
  readonly isPinned?: true;
  /** Node modules that it may import: `node:crypto`. */
  readonly allow: readonly string[];
}

/** A plugin's file bundled with its imports. The key is the SHA-256 of the text. */
export interface PluginCodePart extends SnapshotPart {
  /** Body of a function of `module`, `exports` and `require`; `module.exports` may be a promise. */
  readonly text: string;
  /** Path of the file, for stack traces. */
  readonly path: string;
  /** Source map (revision 3, JSON) from the text to the sources; `""`: the map is too long. */
  readonly map: string;
  /** Libraries inside the executable that it imports. */
  readonly libraries: readonly string[];
}

/** The access log: one line for each exchange and each plain connection. */
export interface AccessLogPart extends SnapshotPart {
  readonly to: AccessLogTarget;
  readonly format: LogFormat;
  /** Connections that an HTTP listener refused before a request are logged, too. */
  readonly listeners: boolean;
  /** Absent: every line is written. */
  readonly sampling?: readonly LogSamplingRule[];
}

export type AccessLogTarget =
  | { readonly kind: "stdout" | "stderr" }
  | { readonly kind: "file"; readonly path: string };

/** Key and name of the public listener in {@link Snapshot.inbound}. */
export const INBOUND_KEY = "inbound";

/** A listener for callers of the service: the address for other sidecars, and the local service. */
export interface InboundPart extends SnapshotPart {
  readonly bind: Extract<BindAddress, { kind: "tcp" }>;
  readonly local: Address;
  /** `null`: bytes are carried unchanged. */
  readonly http: HttpRules | null;
  /** The plugin that verifies tokens before intentions that demand them; absent: none. */
  readonly tokens?: PluginUse;
  /** Plugins for its connections and requests, in the order of configuration. */
  readonly plugins: readonly PluginUse[];
  readonly localConnectTimeoutMs: number;
  readonly handshakeTimeoutMs: number;
  /** 0: the listener has no limit of its own. */
  readonly maxConnections: number;
  /** `both`: the agent's authorize call must allow each connection, too. */
  readonly authorize: "match" | "both";
  /** Key into {@link Snapshot.ownCredentials}; `null`: the proxy's own. */
  readonly credentials: string | null;
}

/** A path of the local service for callers outside the mesh, without TLS and intentions. */
export interface ExposedPart extends SnapshotPart {
  readonly bind: Extract<BindAddress, { kind: "tcp" }>;
  /** Only requests for exactly this path are forwarded, with any query. */
  readonly path: string;
  /** IP addresses that may call, in canonical spelling, besides loopback; absent: any address. */
  readonly onlyFrom?: readonly string[];
  readonly local: Address;
  readonly localConnectTimeoutMs: number;
  readonly http: HttpRules;
}

/** A declared upstream with the local listener for it. */
export interface UpstreamPart extends SnapshotPart {
  /** Stable key, e.g. `service:default/default/db` or `prepared_query:geo-db`. */
  readonly id: string;
  /** Destination name, for logs and metrics. */
  readonly name: string;
  /** `null`: it has no listener of its own; an {@link EdgePart} leads to it. */
  readonly bind: BindAddress | null;
  /** Its discovery chain. Key into {@link Snapshot.chains}. */
  readonly chain: string;
  /** `null`: bytes are carried unchanged. */
  readonly http: HttpRules | null;
  /** As those of {@link InboundPart}. */
  readonly plugins: readonly PluginUse[];
  /** Open connections over all targets; Envoy's default is 1024, 0 allows none. */
  readonly maxConnections: number;
  /** Open connections of HTTP callers; absent: no limit. */
  readonly maxClientConnections?: number;
  /** Connections waiting to be dialled; default 1024. */
  readonly maxPending: number;
  /** Open HTTP requests over all targets; default 1024. */
  readonly maxRequests: number;
  /** A connection ends after this long without a byte in either direction; 0: never. */
  readonly idleTimeoutMs: number;
  /** The longest life of a connection; 0: no limit. */
  readonly lifetimeMs: number;
  /** Credentials for connections to it. Key into {@link Snapshot.ownCredentials}; `null`: the proxy's own. */
  readonly credentials: string | null;
  /** TLS for callers; `null`: callers use plain text, as a local application does. */
  readonly listener: {
    /** Key into {@link Snapshot.ownCredentials}. */
    readonly credentials: string;
    readonly handshakeTimeoutMs: number;
  } | null;
}

/** A listener for callers outside the mesh that leads to several upstreams, by the host of the request. */
export interface EdgePart extends SnapshotPart {
  /** Stable key: `ingress:8080`. */
  readonly id: string;
  readonly bind: Extract<BindAddress, { kind: "tcp" }>;
  readonly http: HttpRules;
  /** As those of {@link InboundPart}. */
  readonly plugins: readonly PluginUse[];
  /** See {@link UpstreamPart.listener}. */
  readonly listener: UpstreamPart["listener"];
  readonly hosts: readonly EdgeHost[];
}

export interface EdgeHost {
  /**
   * Hosts of requests, lower case: `shop.example`, `*.example`, `shop.ingress.*` or `*`. A name without a
   * port also matches with the listener's port. The most exact name wins.
   */
  readonly names: readonly string[];
  /** Key into {@link Snapshot.upstreams}; requests fail where that part is absent. */
  readonly upstream: string;
  /** Changes to requests for these hosts, and to their responses. */
  readonly requestHeaders?: HeaderChanges;
  readonly responseHeaders?: HeaderChanges;
}

export interface ChainPart extends SnapshotPart {
  /** The first match wins. The last route takes all other requests, and all plain connections. */
  readonly routes: readonly ChainRoute[];
  readonly resolvers: Keyed<Resolver>;
}

export interface ChainRoute {
  /** Unique in its chain. */
  readonly name: string;
  readonly service: string;
  /** `null`: matches every request. */
  readonly match: RouteMatch | null;
  /** Not empty; one is chosen at random by weight. */
  readonly splits: readonly Split[];
  /** Parts of a request that are hashed, so that it stays with one endpoint; empty: none. */
  readonly hash: readonly HashPolicy[];
  /** Settings of plugins for this route, by their names. */
  readonly plugins: Readonly<Record<string, unknown>>;
}

export interface Split {
  /** Relative to the sum over the route's splits; above 0. */
  readonly weight: number;
  /** Key into {@link ChainPart.resolvers}. */
  readonly resolver: string;
  /** Settings of plugins for this split in place of the route's; absent: the route's. */
  readonly plugins?: Readonly<Record<string, unknown>>;
}

export interface Resolver {
  /** Keys into {@link Snapshot.targets}, primary first, then in failover order. */
  readonly targets: readonly string[];
  readonly balancing: LoadBalancing;
  readonly outlier: OutlierPolicy;
}

export interface FailingInstance extends Endpoint {
  /** Checks that do not pass, by their ids; absent: not known. */
  readonly checks?: readonly string[];
}

/** The names of a target in its discovery chain. */
export interface TargetNames {
  /** Consul's id of it: `v2.db.default.default.dc1`. */
  readonly id: string;
  readonly service: string;
  /** `""`: none. */
  readonly subset: string;
  readonly datacenter: string;
}

/** A resolver's target: its endpoints, and the identities that they must prove. */
export interface TargetPart extends SnapshotPart {
  readonly key: string;
  /** By which a plugin chooses it; absent: it is not from a chain. */
  readonly names?: TargetNames;
  /** Sent in the ClientHello. */
  readonly sni: string;
  /** The cluster as Consul names it to Envoy; {@link clusterNames} adds the failover prefix. */
  readonly cluster: string;
  /** The server must prove one of these SPIFFE URIs, unless the upstream has credentials of its own. */
  readonly spiffeUris: readonly string[];
  readonly connectTimeoutMs: number;
  readonly endpoints: readonly Endpoint[];
  /** Registered instances that are not dialled; for display only. */
  readonly unhealthy: readonly FailingInstance[];
  /** The last endpoints before a stopping agent emptied the list (consul_live 10.1); dialled last. */
  readonly lastResort: readonly Endpoint[];
  /** Why {@link endpoints} is empty, for people; `""`: it is not. */
  readonly lack: string;
}

/** A rejected upstream or feature, with the reason. Shown by the admin server and the log. */
export interface Refusal {
  readonly what: string;
  readonly reason: string;
  /** The upstream that is not served for this reason; absent: the refusal is about another feature. */
  readonly upstream?: Pick<UpstreamPart, "id" | "name" | "bind">;
}

/** Help of the gauge `snapshot_refused`, to which all that refuse add. */
export const REFUSED_HELP =
  "Parts of the newest configuration that are refused now; the log names them";

/** Kinds with a single part. */
export interface SingleParts {
  /** `null`: every listener and upstream of the configuration file has credentials of its own. */
  readonly credentials: CredentialsPart | null;
  readonly policy: PolicyPart;
  readonly tls: TlsPart;
  /** `null`: no access log is configured. */
  readonly accessLog: AccessLogPart | null;
  /** `null`: no spans are made, and headers that carry a trace pass through. */
  readonly tracing: TracingPart | null;
  /** `null`: neither metrics nor logs are sent to a collector. */
  readonly telemetry: TelemetryPart | null;
}

/** Kinds with many parts, by key. */
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

/** The proxy that a snapshot belongs to: small, and always sent whole. */
export interface SnapshotFacts {
  /** Rises with every published snapshot. */
  readonly version: number;
  /** The service of this proxy: `web`. */
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
