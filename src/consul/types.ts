/**
 * What the agent tells us, checked and in our own words: every reply becomes one of these before
 * anybody else sees it. Field names of Consul's JSON appear only in this directory's schemas.
 *
 * @module
 */

import type { OutlierPolicy } from "../balance/mod.ts";
import type { Address, BindAddress } from "../base/mod.ts";
import type { HeaderChanges } from "../http/mod.ts";
import type { Intention } from "../policy/mod.ts";

/** A proxy registration as merged by the agent (`GET /v1/agent/service/:id`). */
export interface Registration {
  readonly id: string;
  /** The service this proxy stands for: `Proxy.DestinationServiceName`. */
  readonly service: string;
  /** The name that the proxy itself is registered under: `web-sidecar-proxy`. */
  readonly proxyService?: string;
  readonly datacenter: string;
  /** `default` where Consul says nothing. */
  readonly namespace: string;
  readonly partition: string;
  /** The agent told namespace or partition, as Enterprise does; absent: the mesh has none. */
  readonly hasTenancy?: true;
  /** Of the public listener, from the registration and `bind_address` / `bind_port`; port 0: none. */
  readonly bind: { readonly kind: "tcp"; readonly host: string; readonly port: number };
  readonly local: Address;
  /** `direct` or `transparent`; `""` counts as direct. */
  readonly mode: string;
  /** `tcp`, `http`, ... from the merged configuration, as it was written. */
  readonly protocol: string;
  readonly localConnectTimeoutMs: number;
  /** Of a request to the local service; 0: none; absent: nothing is said. */
  readonly localRequestTimeoutMs?: number;
  /** Of a request's silence; 0: for ever; absent: nothing is said. */
  readonly localIdleTimeoutMs?: number;
  /** Of a request's head. */
  readonly headBytes?: number;
  /** `postern_show_denials`: a denied caller is told the rule. */
  readonly showDenials?: true;
  readonly handshakeTimeoutMs: number;
  /** 0: no limit. */
  readonly maxInboundConnections: number;
  /** Paths of the local service for callers outside the mesh; absent: none. */
  readonly exposed?: readonly ExposedPath[];
  /** The service whose checks the agent sends through the proxy; their paths are in `exposed`. */
  readonly exposesChecksOf?: string;
  /** `postern_tls` of the proxy's configuration, as it was written; read by who knows what it means. */
  readonly tls?: unknown;
  /** `postern_plugins` of the proxy's configuration, as it was written. */
  readonly plugins?: unknown;
  /** Of an ingress gateway; absent: a sidecar. */
  readonly ingress?: IngressRegistration;
  /** Absent: none is wanted. */
  readonly accessLogs?: AccessLogSettings;
  /** Absent: nothing is said. */
  readonly metrics?: MetricsSettings;
  readonly upstreams: readonly UpstreamDeclaration[];
  /** Keys that were ignored or mended, as sentences for the log; those of an upstream are with it. */
  readonly warnings: readonly string[];
}

/** One of `Proxy.Expose.Paths`; central configuration may say anything here. */
export interface ExposedPath {
  readonly listenerPort: number;
  readonly path: string;
  readonly localPort: number;
  /** `http`, `http2`, or `""`. */
  readonly protocol: string;
  /** IP addresses that may call, besides loopback; absent: everybody may. */
  readonly onlyFrom?: readonly string[];
}

/** `AccessLogs` that are enabled, as they were written. */
export interface AccessLogSettings {
  readonly disableListenerLogs: boolean;
  /** `stdout`, `stderr` or `file`; `""` counts as the first. */
  readonly type: string;
  readonly path: string;
  readonly jsonFormat: string;
  readonly textFormat: string;
}

/** Where the proxy's configuration wants metrics. */
export interface MetricsSettings {
  /** `envoy_prometheus_bind_addr`, as it was written, as all of these are; `""`: nowhere. */
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
  /** Of `envoy_extra_static_clusters_json`, as they were written: SDS servers may be among them. */
  readonly clusters: readonly unknown[];
  readonly meshGatewayMode: string;
  /** Its HTTP listeners: each leads to upstreams without a place to listen. */
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

export interface EdgeHostDeclaration {
  /** As Consul has them: exact, or with a star in front or at the end. */
  readonly names: readonly string[];
  readonly upstream: string;
  /** Of requests for these hosts, and of what is answered. */
  readonly requestHeaders?: HeaderChanges;
  readonly responseHeaders?: HeaderChanges;
}

/** One entry of `Proxy.Upstreams` that wants a listener, or a service behind an ingress gateway. */
export interface UpstreamDeclaration {
  /**
   * Stable: `service:default/default/db`, with `?dc=dc2` or `?peer=east` where given; of an ingress
   * gateway `ingress:8443/db`.
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
  /** In place of the chain's, as it was written; `""`: the chain's; of a prepared query `tcp`. */
  readonly protocol: string;
  /** Absent: the chain's (5 s by default). */
  readonly connectTimeoutMs?: number;
  /** Absent: 1024. */
  readonly maxConnections?: number;
  /** Ours: of callers that speak HTTP. Absent: as many as come. */
  readonly maxClientConnections?: number;
  readonly maxPending?: number;
  readonly maxRequests?: number;
  readonly outlier: Partial<OutlierPolicy>;
  /** Poll interval of a prepared query, where the upstream's config overrides the flag. */
  readonly queryIntervalMs?: number;
  readonly idleTimeoutMs?: number;
  readonly lifetimeMs?: number;
  /** There is a `postern_plugins` in the upstream's configuration. */
  readonly listsPlugins?: boolean;
  /** `postern_tls` of the upstream's configuration, as it was written. */
  readonly tls?: unknown;
  /** `postern_listener_tls`: TLS that callers of the upstream's listener must speak. */
  readonly listenerTls?: unknown;
  /** Of an ingress gateway's listener: what its config entry says about TLS. */
  readonly ingressTls?: IngressTlsDeclaration;
  /** As those of {@link Registration}; absent: none. */
  readonly warnings?: readonly string[];
}

/** What an ingress gateway's config entry says about TLS of one listener. */
export interface IngressTlsDeclaration {
  /** TLS is wanted, if with Consul's own certificate. */
  readonly enabled: boolean;
  /** The entry with this listener alone, as it was written. */
  readonly entry: unknown;
  /** Where the listener is in the whole entry, for messages. */
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

export type { ChainBalancing, ChainNode, ChainTarget, DiscoveryChain } from "../chain/mod.ts";

/** One row of `/v1/health/connect/:service` or of a prepared query. */
export interface Instance {
  readonly node: string;
  readonly serviceId: string;
  /** The service whose identity it must prove: destination of a proxy, own name when native. */
  readonly service: string;
  /** A terminating gateway, which shows the certificate of the service that the SNI names. */
  readonly gateway?: true;
  readonly namespace: string;
  readonly partition: string;
  readonly datacenter: string;
  /** Service address, else node address. */
  readonly host: string;
  readonly port: number;
  /** WAN address where tagged (service, then node), else the same as host and port. */
  readonly wanHost: string;
  readonly wanPort: number;
  /** Worst of its checks. */
  readonly health: "passing" | "warning" | "critical";
  /** An operator put it or its node into maintenance mode. */
  readonly inMaintenance?: boolean;
  readonly weights: { readonly passing: number; readonly warning: number };
}

/** A prepared query's answer. */
export interface QueryResult {
  readonly service: string;
  readonly datacenter: string;
  readonly instances: readonly Instance[];
}
