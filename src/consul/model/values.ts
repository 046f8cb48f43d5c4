/**
 * Consul's replies, checked and in our own words: every reply becomes one of these values. Field names of
 * Consul's JSON appear only in the schemas of this room.
 *
 * @module
 */

import type { OutlierPolicy } from "../../balance/mod.ts";
import type { Address, BindAddress } from "../../base/mod.ts";
import type { HeaderChanges } from "../../http/mod.ts";
import type { Intention } from "../../policy/mod.ts";
import type { TracingChoice } from "../../snapshot/mod.ts";

/** A proxy registration, merged with the central configuration (`GET /v1/agent/service/:id`). */
export interface Registration {
  readonly id: string;
  /** The service of the proxy: `Proxy.DestinationServiceName`. */
  readonly service: string;
  /** The proxy's own service name: `web-sidecar-proxy`. */
  readonly proxyService?: string;
  readonly datacenter: string;
  /** `default` where Consul says nothing. */
  readonly namespace: string;
  readonly partition: string;
  /** The reply has a namespace or partition, as Enterprise's do; absent: the mesh has none. */
  readonly hasTenancy?: true;
  /** The public listener: the registration's, or `bind_address` and `bind_port`; port 0: none. */
  readonly bind: { readonly kind: "tcp"; readonly host: string; readonly port: number };
  readonly local: Address;
  /** `direct` or `transparent`; `""` counts as direct. */
  readonly mode: string;
  /** `tcp`, `http`, ... as written in the merged configuration. */
  readonly protocol: string;
  readonly localConnectTimeoutMs: number;
  /** For a request to the local service; 0: none; absent: not configured. */
  readonly localRequestTimeoutMs?: number;
  /** How long a request may be silent; 0: for ever; absent: not configured. */
  readonly localIdleTimeoutMs?: number;
  /** Limit for the head of a request. */
  readonly headBytes?: number;
  /** `postern_show_denials`: what a denied caller is told; absent: not configured. */
  readonly showDenials?: "off" | "code" | "rule";
  readonly handshakeTimeoutMs: number;
  /** 0: no limit. */
  readonly maxInboundConnections: number;
  /** Paths of the local service that callers outside the mesh may use; absent: none. */
  readonly exposed?: readonly ExposedPath[];
  /** The agent sends the checks of this service through the proxy; their paths are in `exposed`. */
  readonly exposesChecksOf?: string;
  /** `postern_tls` of the proxy's configuration, as written. */
  readonly tls?: unknown;
  /** `postern_plugins` of the proxy's configuration, as written. */
  readonly plugins?: unknown;
  /** `postern_upstream_plugins` of the proxy's configuration, as written: lists by upstream. */
  readonly upstreamPlugins?: unknown;
  /** Present for an ingress gateway; absent: a sidecar. */
  readonly ingress?: IngressRegistration;
  readonly accessLogs?: AccessLogSettings;
  /** `postern_access_log_sampling` of the proxy's configuration, as written. */
  readonly accessLogSampling?: unknown;
  /** Absent: not configured. */
  readonly metrics?: MetricsSettings;
  /** `envoy_tracing_json` and `envoy_listener_tracing_json`, where they can be followed. */
  readonly tracing?: TracingChoice;
  readonly upstreams: readonly UpstreamDeclaration[];
  /** Keys that were ignored or mended, as sentences for the log; an upstream has its own. */
  readonly warnings: readonly string[];
}

/** One of `Proxy.Expose.Paths`, unchecked. */
export interface ExposedPath {
  readonly listenerPort: number;
  readonly path: string;
  readonly localPort: number;
  /** `http`, `http2`, or `""`. */
  readonly protocol: string;
  /** IP addresses that may call, besides loopback; absent: any. */
  readonly onlyFrom?: readonly string[];
}

/** `AccessLogs` that are enabled, as written. */
export interface AccessLogSettings {
  readonly disableListenerLogs: boolean;
  /** `stdout`, `stderr` or `file`; `""` counts as the first. */
  readonly type: string;
  readonly path: string;
  readonly jsonFormat: string;
  readonly textFormat: string;
}

/** Where the proxy's configuration sends metrics; all texts are as written. */
export interface MetricsSettings {
  /** `envoy_prometheus_bind_addr`; `""`: nowhere. */
  readonly prometheusBindAddr: string;
  /** `envoy_stats_bind_addr` */
  readonly statsBindAddr: string;
  /** `envoy_statsd_url` and `envoy_dogstatsd_url` */
  readonly statsdUrl: string;
  readonly dogstatsdUrl: string;
  /** `envoy_stats_flush_interval`; `""`: Envoy's. */
  readonly flushInterval: string;
  /** `envoy_stats_tags`: `name=value`. */
  readonly tags: readonly string[];
}

export interface IngressRegistration {
  /** `envoy_extra_static_clusters_json` as written: SDS servers may be among them. */
  readonly clusters: readonly unknown[];
  readonly meshGatewayMode: string;
  /** HTTP listeners: each leads to upstreams that have no listener of their own. */
  readonly edges: readonly EdgeDeclaration[];
  /** Listeners of its config entry that are not served, and why. */
  readonly refused: readonly { readonly what: string; readonly reason: string }[];
}

/** An HTTP listener of an ingress gateway. */
export interface EdgeDeclaration {
  /** `ingress:8080`. */
  readonly id: string;
  readonly bind: Extract<BindAddress, { kind: "tcp" }>;
  readonly protocol: string;
  readonly hosts: readonly EdgeHostDeclaration[];
  readonly tls: IngressTlsDeclaration;
}

interface EdgeHostDeclaration {
  /** In Consul's form: exact, or with a star in front or at the end. */
  readonly names: readonly string[];
  readonly upstream: string;
  /** For requests for these hosts, and for the responses. */
  readonly requestHeaders?: HeaderChanges;
  readonly responseHeaders?: HeaderChanges;
}

/** One entry of `Proxy.Upstreams` with a listener, or a service behind an ingress gateway. */
export interface UpstreamDeclaration {
  /**
   * Stable: `service:default/default/db`, with `?dc=dc2` or `?peer=east` where given; `ingress:8443/db`
   * behind an ingress gateway.
   */
  readonly id: string;
  readonly kind: "service" | "prepared_query";
  readonly name: string;
  readonly namespace: string;
  readonly partition: string;
  /** `""`: none. */
  readonly peer: string;
  /** `""`: the proxy's own. */
  readonly datacenter: string;
  /** `null`: an {@link EdgeDeclaration} leads here. */
  readonly bind: BindAddress | null;
  /** `""`, `none`, `local` or `remote`. */
  readonly meshGatewayMode: string;
  /** The protocol that replaces the chain's, as written; `""`: the chain's own. A prepared query has `tcp`. */
  readonly protocol: string;
  /** Absent: the chain's (5 s by default). */
  readonly connectTimeoutMs?: number;
  /** Absent: 1024. */
  readonly maxConnections?: number;
  /** Postern's own: connections of callers that speak HTTP. Absent: no limit. */
  readonly maxClientConnections?: number;
  readonly maxPending?: number;
  readonly maxRequests?: number;
  readonly outlier: Partial<OutlierPolicy>;
  /** Poll interval of a prepared query, in place of the flag's. */
  readonly queryIntervalMs?: number;
  readonly idleTimeoutMs?: number;
  readonly lifetimeMs?: number;
  /** `postern_plugins` of the upstream's configuration, as written. */
  readonly plugins?: unknown;
  /** `postern_tls` of the upstream's configuration, as written. */
  readonly tls?: unknown;
  /** `postern_listener_tls`, as written: TLS that callers of the listener must speak. */
  readonly listenerTls?: unknown;
  /** TLS of an ingress gateway's listener, by its config entry. */
  readonly ingressTls?: IngressTlsDeclaration;
  /** See {@link Registration}; absent: none. */
  readonly warnings?: readonly string[];
}

/** TLS of one listener by an ingress gateway's config entry. */
export interface IngressTlsDeclaration {
  /** TLS is configured, even if with Consul's own certificate. */
  readonly enabled: boolean;
  /** The entry with this listener alone, as written. */
  readonly entry: unknown;
  /** The listener's place in the whole entry, for messages. */
  readonly path: readonly string[];
  readonly index: number;
}

/** A leaf with its key (`GET /v1/agent/connect/ca/leaf/:service`); not yet validated. */
export interface Leaf {
  readonly certPem: string;
  readonly keyPem: string;
  readonly uri: string;
  readonly serial: string;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

/** Roots in force (`GET /v1/agent/connect/ca/roots`). */
export interface Roots {
  readonly activeId: string;
  /** Lower case. */
  readonly trustDomain: string;
  readonly roots: readonly Root[];
}

export interface Root {
  readonly id: string;
  readonly name: string;
  readonly pem: string;
  readonly active: boolean;
  /** `<id>.consul` of `ExternalTrustDomain`, lower case; `""` where the reply has none. */
  readonly externalTrustDomain: string;
}

/** Intentions for one destination, in Consul's order; `null` and `[]` both become `[]`. */
export type Intentions = readonly Intention[];

export type { ChainBalancing, ChainNode, ChainTarget, DiscoveryChain } from "../../chain/mod.ts";

/** One row of `/v1/health/connect/:service` or of a prepared query. */
export interface Instance {
  readonly node: string;
  readonly serviceId: string;
  /** The service whose identity it must prove: a proxy's destination, or its own name when native. */
  readonly service: string;
  /** A terminating gateway: it shows the certificate of the service that the SNI names. */
  readonly gateway?: true;
  readonly namespace: string;
  readonly partition: string;
  readonly datacenter: string;
  /** Service address, else node address. */
  readonly host: string;
  readonly port: number;
  /** The tagged WAN address of the service, else of the node, else the same as host and port. */
  readonly wanHost: string;
  readonly wanPort: number;
  /** The worst state of its checks. */
  readonly health: "passing" | "warning" | "critical";
  /** Ids of the checks that do not pass; absent: all pass. */
  readonly checks?: readonly string[];
  /** An operator has taken it out of traffic: `set on service db-1: "kernel update"`. */
  readonly maintenance?: string;
  readonly weights: { readonly passing: number; readonly warning: number };
}

export interface QueryResult {
  readonly service: string;
  readonly datacenter: string;
  readonly instances: readonly Instance[];
}
