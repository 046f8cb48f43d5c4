/**
 * Every key of Consul 1.22 that configures a proxy, and what Postern does with it. Warnings about keys that
 * are not followed are made from this table, and `docs/configuration-keys.md` is written from it, so that
 * the log, `postern check` and the page cannot differ.
 *
 * @module
 */

/** The places of keys. */
export const KEY_PLACES = [
  /** `Proxy.Config` of a sidecar, which `proxy-defaults` and `service-defaults` are merged into. */
  "proxy",
  /** `Proxy.Config` of an ingress gateway. */
  "gateway",
  /** `Upstreams[].Config`, which `UpstreamConfig` of `service-defaults` is merged into. */
  "upstream",
  /** The registration itself. */
  "registration",
  "proxy-defaults",
  "service-defaults",
  "mesh",
] as const;
export type KeyPlace = (typeof KEY_PLACES)[number];

type KeyFate =
  /** It works as in Consul's documentation, except for values that are rejected, which the log names. */
  | { readonly kind: "followed"; readonly note?: string }
  /** No behaviour of a proxy depends on it. */
  | { readonly kind: "moot"; readonly reason: string }
  /** Without effect; named once in the log, and by `postern check`. */
  | { readonly kind: "ignored"; readonly reason: string }
  /** A value that is not the default is rejected, and the log names it. */
  | { readonly kind: "refused"; readonly reason: string };

export interface ConfigKey {
  readonly place: KeyPlace;
  /** Consul's documented name, with dots between the names of blocks: `limits.max_connections`. */
  readonly key: string;
  readonly fate: KeyFate;
}

interface Rows {
  /** Names with white space between them. */
  readonly followed: string;
  readonly notes?: Readonly<Record<string, string>>;
  readonly moot?: Readonly<Record<string, string>>;
  readonly ignored?: Readonly<Record<string, string>>;
  readonly refused?: Readonly<Record<string, string>>;
}

const RAW = "raw Envoy configuration is not supported; what it adds has to come from a plugin " +
  "(postern_plugins)";
const KERNEL = "the kernel spreads connections over the workers";
const NO_XDS = "Postern does not read its configuration by xDS";
const TRACING_KEYS = "envoy_tracing_json envoy_listener_tracing_json";
const TRACING_NOTES = {
  envoy_tracing_json: "the tracers envoy.tracers.zipkin and envoy.tracers.opentelemetry; others, " +
    "and fields that are not followed, are named",
  envoy_listener_tracing_json: "provider, random_sampling and overall_sampling; other fields are " +
    "named",
};
const NO_BOOTSTRAP =
  "there is no bootstrap configuration; the flags of postern proxy take its place";
const OTHER_GATEWAYS = "it configures mesh and terminating gateways, which Postern is not";
const NO_LOCAL = "a gateway has no local service";
const AT_REGISTRATION = "Consul reads it when the proxy is registered";
const CATALOG = "Consul's catalog and DNS use it";
const TRANSPARENT = "transparent proxying is not supported; register the proxy with Mode direct " +
  "and its upstreams";
const LABEL = "it is a label for people";
const INDEX = "it is Consul's bookkeeping";

const STATS_KEYS = `
  envoy_prometheus_bind_addr envoy_stats_bind_addr envoy_statsd_url envoy_dogstatsd_url
  envoy_stats_tags envoy_stats_flush_interval
`;

const BOOTSTRAP_KEYS = {
  envoy_bootstrap_json_tpl: NO_BOOTSTRAP,
  envoy_extra_static_listeners_json: `${RAW}; declare an upstream for each listener`,
  envoy_extra_stats_sinks_json: "raw Envoy configuration is not supported; set envoy_statsd_url " +
    "or envoy_dogstatsd_url, start the proxy with -metrics-to, or scrape /stats/prometheus",
  envoy_stats_config_json:
    "raw Envoy configuration is not supported; choose labels and buckets where " +
    "the metrics are read",
  envoy_telemetry_collector_bind_socket_dir:
    "HCP's telemetry collector is not supported; start the proxy with -metrics-to, or scrape " +
    "/stats/prometheus",
  xds_fetch_timeout_ms: NO_XDS,
};

const ENTRY_KEYS = {
  ...keysWith(INDEX, "Kind Name Namespace Partition"),
  Meta: LABEL,
  ...keysWith(INDEX, "Hash CreateIndex ModifyIndex"),
};

const PERMISSIVE =
  "permissive is not supported: the public listener takes mutual TLS only, and resets callers " +
  "without it; give them an exposed path (Expose.Paths) or an ingress gateway, or write strict";

/** How far keys that are merged into the proxy's own are followed. */
const MERGED_NOTES = {
  EnvoyExtensions: "those that a plugin replaces; others are named",
  "MeshGateway.Mode": "modes other than none are refused where a target is far away",
};
const MERGED_BLOCKS = "Mode MeshGateway.Mode Expose.Checks Expose.Paths";
const MERGED_TRANSPARENT = {
  "TransparentProxy.OutboundListenerPort": "it counts in transparent mode, which is refused",
  "TransparentProxy.DialedDirectly": "it counts for callers in transparent mode",
};

const PLACES: Readonly<Record<KeyPlace, Rows>> = {
  proxy: {
    followed: `
      bind_address bind_port protocol local_connect_timeout_ms local_request_timeout_ms
      local_idle_timeout_ms handshake_timeout_ms max_inbound_connections max_request_headers_kb
      ${STATS_KEYS} ${TRACING_KEYS} envoy_extra_static_clusters_json postern_tls postern_plugins
      postern_upstream_plugins postern_show_denials postern_access_log_sampling
    `,
    notes: {
      ...TRACING_NOTES,
      envoy_extra_static_clusters_json: "the collector's cluster of envoy_tracing_json is read; " +
        "others are named",
    },
    moot: {
      ...keysWith(AT_REGISTRATION, "disable_tcp_check tcp_check_address"),
      mesh_gateway: "Consul merges it into the upstreams",
    },
    ignored: {
      balance_inbound_connections: KERNEL,
      envoy_public_listener_json: `${RAW}; postern_tls says how the listener speaks TLS`,
      envoy_local_cluster_json: `${RAW}; local_connect_timeout_ms, local_request_timeout_ms and ` +
        "max_inbound_connections are followed",
      ...BOOTSTRAP_KEYS,
    },
  },
  gateway: {
    followed: `
      bind_address handshake_timeout_ms max_request_headers_kb ${STATS_KEYS} ${TRACING_KEYS}
      envoy_extra_static_clusters_json postern_tls postern_access_log_sampling
    `,
    notes: {
      ...TRACING_NOTES,
      envoy_extra_static_clusters_json:
        "SDS servers and the collector's cluster of envoy_tracing_json are read; other clusters " +
        "are not used",
    },
    moot: {
      protocol: "each listener of the config entry names its own",
      ...keysWith(AT_REGISTRATION, "disable_tcp_check tcp_check_address"),
      mesh_gateway: "Consul merges it into the upstreams",
      bind_port: "each listener of the config entry names its own",
      ...keysWith(
        NO_LOCAL,
        "local_connect_timeout_ms local_request_timeout_ms local_idle_timeout_ms",
      ),
      max_inbound_connections: "Consul applies it to sidecars",
      envoy_local_cluster_json: NO_LOCAL,
      envoy_public_listener_json: "Consul applies it to sidecars",
    },
    ignored: {
      balance_inbound_connections: KERNEL,
      postern_plugins: "plugins run on a sidecar's requests, not on a gateway's",
      postern_upstream_plugins: "plugins run on a sidecar's requests, not on a gateway's",
      postern_show_denials: "a gateway judges no intentions, and its callers are told no reason",
      connect_timeout_ms: "ConnectTimeout of the service's service-resolver is followed",
      ...keysWith(
        OTHER_GATEWAYS,
        `
          envoy_dns_discovery_type envoy_gateway_bind_addresses
          envoy_gateway_bind_tagged_addresses envoy_gateway_no_default_bind
          envoy_mesh_gateway_bind_addresses envoy_mesh_gateway_bind_tagged_addresses
          envoy_mesh_gateway_no_default_bind envoy_gateway_remote_tcp_enable_keepalive
          envoy_gateway_remote_tcp_keepalive_time envoy_gateway_remote_tcp_keepalive_interval
          envoy_gateway_remote_tcp_keepalive_probes
        `,
      ),
      ...BOOTSTRAP_KEYS,
    },
  },
  upstream: {
    followed: `
      protocol connect_timeout_ms limits.max_connections limits.max_client_connections
      limits.max_pending_requests limits.max_concurrent_requests passive_health_check.interval
      passive_health_check.max_failures passive_health_check.enforcing_consecutive_5xx
      passive_health_check.max_ejection_percent passive_health_check.base_ejection_time
      mesh_gateway.mode prepared_query_interval idle_timeout_ms max_connection_lifetime_ms
      postern_tls postern_listener_tls postern_plugins
    `,
    moot: { name: INDEX, peer: INDEX },
    ignored: {
      balance_outbound_connections: KERNEL,
      envoy_listener_json: `${RAW}; Envoy ignores it, too, where a discovery chain is active`,
      envoy_cluster_json:
        `${RAW}; connect_timeout_ms, limits and passive_health_check are followed`,
    },
  },
  registration: {
    followed: `
      Kind ID Service Address Port Datacenter Namespace Partition ContentHash
      Proxy.DestinationServiceName Proxy.DestinationServiceID Proxy.LocalServiceAddress
      Proxy.LocalServicePort Proxy.LocalServiceSocketPath Proxy.Config Proxy.Upstreams
      Proxy.MeshGateway.Mode Proxy.Expose.Checks Proxy.Expose.Paths Proxy.EnvoyExtensions
      Proxy.AccessLogs.Enabled Proxy.AccessLogs.DisableListenerLogs Proxy.AccessLogs.Type
      Proxy.AccessLogs.Path Proxy.AccessLogs.JSONFormat Proxy.AccessLogs.TextFormat
    `,
    notes: {
      "Proxy.EnvoyExtensions": MERGED_NOTES.EnvoyExtensions,
      "Proxy.Expose.Checks":
        "beside an agent, for its addresses alone; a check's path is known once it has run",
      "Proxy.MeshGateway.Mode": MERGED_NOTES["MeshGateway.Mode"],
    },
    moot: {
      ...keysWith(LABEL, "Tags Meta"),
      ...keysWith("callers use it", "Weights TaggedAddresses"),
      EnableTagOverride: CATALOG,
      ...keysWith(INDEX, "CreateIndex ModifyIndex"),
      PeerName: CATALOG,
      Locality: "callers use it",
      ...keysWith(CATALOG, "Ports SocketPath"),
      Connect: "it counts for services that are no proxies",
      "Proxy.TransparentProxy.OutboundListenerPort":
        MERGED_TRANSPARENT["TransparentProxy.OutboundListenerPort"],
      "Proxy.TransparentProxy.DialedDirectly":
        MERGED_TRANSPARENT["TransparentProxy.DialedDirectly"],
    },
    refused: { "Proxy.Mode": TRANSPARENT },
  },
  "proxy-defaults": {
    followed: `
      Config ${MERGED_BLOCKS} AccessLogs.Enabled AccessLogs.DisableListenerLogs AccessLogs.Type
      AccessLogs.Path AccessLogs.JSONFormat AccessLogs.TextFormat EnvoyExtensions
      FailoverPolicy.Mode FailoverPolicy.Regions PrioritizeByLocality.Mode
    `,
    notes: {
      ...MERGED_NOTES,
      "FailoverPolicy.Mode": "as part of the discovery chain",
      "FailoverPolicy.Regions": "as part of the discovery chain",
      "PrioritizeByLocality.Mode":
        "a chain that has it is rejected, and the log names it (Enterprise)",
    },
    moot: { ...ENTRY_KEYS, ...MERGED_TRANSPARENT },
    refused: { MutualTLSMode: PERMISSIVE },
  },
  "service-defaults": {
    followed: `
      Protocol ${MERGED_BLOCKS} UpstreamConfig.Defaults UpstreamConfig.Overrides
      MaxInboundConnections LocalConnectTimeoutMs LocalRequestTimeoutMs MaxRequestHeadersKB
      BalanceInboundConnections RateLimits.InstanceLevel.RequestsPerSecond
      RateLimits.InstanceLevel.RequestsMaxBurst RateLimits.InstanceLevel.Routes EnvoyExtensions
      ExternalSNI
    `,
    notes: {
      ...MERGED_NOTES,
      BalanceInboundConnections: "merged into the proxy's config, where it is named as ignored",
      ExternalSNI: "an upstream that ends in such a service is rejected, and the log names it",
    },
    moot: { ...ENTRY_KEYS, ...MERGED_TRANSPARENT },
    ignored: {
      ...keysWith(
        "only a terminating gateway reaches a destination outside the mesh",
        "Destination.Addresses Destination.Port",
      ),
    },
    refused: { MutualTLSMode: PERMISSIVE },
  },
  mesh: {
    followed: `
      TLS.Incoming.TLSMinVersion TLS.Incoming.TLSMaxVersion TLS.Incoming.CipherSuites
      TLS.Outgoing.TLSMinVersion TLS.Outgoing.TLSMaxVersion TLS.Outgoing.CipherSuites
      HTTP.SanitizeXForwardedClientCert
      HTTP.Incoming.RequestNormalization.InsecureDisablePathNormalization
      HTTP.Incoming.RequestNormalization.MergeSlashes
      HTTP.Incoming.RequestNormalization.PathWithEscapedSlashesAction
      HTTP.Incoming.RequestNormalization.HeadersWithUnderscoresAction
    `,
    moot: {
      ...ENTRY_KEYS,
      "TransparentProxy.MeshDestinationsOnly":
        "nothing passes through to destinations outside the mesh",
      AllowEnablingPermissiveMutualTLS: "Consul checks it when another entry is written",
      ValidateClusters: "routes without a target are never made",
      "Peering.PeerThroughMeshGateways": "Consul's servers use it",
    },
  },
};

export const CONFIG_KEYS: readonly ConfigKey[] = KEY_PLACES.flatMap((place) => {
  const { followed, notes = {}, moot = {}, ignored = {}, refused = {} } = PLACES[place];
  return [
    ...wordsOf(followed).map((key): ConfigKey => {
      const note = notes[key];
      return { place, key, fate: { kind: "followed", ...(note !== undefined && { note }) } };
    }),
    ...unfollowed(place, "moot", moot),
    ...unfollowed(place, "ignored", ignored),
    ...unfollowed(place, "refused", refused),
  ];
});

function unfollowed(
  place: KeyPlace,
  kind: "moot" | "ignored" | "refused",
  reasons: Readonly<Record<string, string>>,
): readonly ConfigKey[] {
  return Object.entries(reasons).map(([key, reason]) => ({ place, key, fate: { kind, reason } }));
}

function keysWith(reason: string, keys: string): Readonly<Record<string, string>> {
  return Object.fromEntries(wordsOf(keys).map((key) => [key, reason]));
}

function wordsOf(text: string): readonly string[] {
  return text.trim().split(/\s+/);
}
