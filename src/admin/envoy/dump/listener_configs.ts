/** Listeners with their filter chains as Envoy's `/config_dump` has them. @module */

import type { BindAddress } from "../../../base/mod.ts";
import { DEFAULT_HTTP_LIMITS } from "../../../http/mod.ts";
import {
  type ExposedPart,
  type HttpRules,
  INBOUND_KEY,
  type InboundPart,
  type PluginUse,
  type Snapshot,
  upstreamLabel,
  type UpstreamPart,
} from "../../../snapshot/mod.ts";
import { LOCAL_APP } from "../clusters.ts";
import {
  addressJson,
  durationJson,
  exposedPathName,
  type Json,
  listenerName,
  PUBLIC_LISTENER,
  typedJson,
} from "../listeners.ts";
import { rbacRules } from "./intentions.ts";
import { chainRoutes, edgeRoutes, onlyCluster, routeConfig } from "./route_configs.ts";

const FILTERS = "extensions.filters";
const HTTP = "envoy.filters.http";
const NETWORK = "envoy.filters.network";
const ROUTER = typedJson(`${HTTP}.router`, `${FILTERS}.http.router.v3.Router`);
const CALLER_PARTS = { subject: true, cert: true, chain: true, dns: true, uri: true };

/** Plugins that do what a filter of Envoy's does, by its name. */
const FILTER_NAMES: Readonly<Record<string, string>> = {
  jwt_auth: `${HTTP}.jwt_authn`,
  ext_authz: `${HTTP}.ext_authz`,
  rate_limit: `${HTTP}.local_ratelimit`,
  fault: `${HTTP}.fault`,
  cors: `${HTTP}.cors`,
  compression: `${HTTP}.compressor`,
};

interface NamedRoutes {
  readonly version: number;
  readonly config: Json;
}

interface ListenerConfig extends NamedRoutes {
  readonly name: string;
}

export function listenerConfigs(snapshot: Snapshot, datacenter: string): readonly ListenerConfig[] {
  const made: ListenerConfig[] = [];
  const add = (
    id: string,
    { bind, version }: { readonly bind: BindAddress; readonly version: number },
    rest: Json,
  ) => {
    const name = listenerName({ name: id, address: "" }, snapshot);
    const config = {
      "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
      name,
      address: addressJson(bind),
      ...rest,
    };
    made.push({ name, version, config });
  };
  for (const [id, part] of Object.entries(snapshot.exposed)) add(id, part, exposed(part));
  const inbound = snapshot.inbound[INBOUND_KEY];
  if (inbound) {
    // Its filters also change with the intentions.
    const version = Math.max(inbound.version, snapshot.policy.version);
    add(INBOUND_KEY, { bind: inbound.bind, version }, publicListener(inbound, snapshot));
  }
  for (const [id, part] of Object.entries(snapshot.edges)) {
    const name = String(part.bind.port);
    const filter = connectionManager(part.http, {
      prefix: `ingress_upstream_${name}`,
      routes: { rds: rds(name) },
      filters: [...pluginFilters(part.plugins), ROUTER],
    });
    add(id, part, { filter_chains: [{ filters: [filter] }], traffic_direction: "OUTBOUND" });
  }
  for (const [id, part] of Object.entries(snapshot.upstreams)) {
    const { bind, version } = part;
    if (bind) add(id, { bind, version }, upstreamListener(part, { snapshot, datacenter }));
  }
  return made;
}

/** Route tables that listeners refer to by name. */
export function namedRoutes(snapshot: Snapshot): readonly NamedRoutes[] {
  const { targets, chains } = snapshot;
  const made: NamedRoutes[] = [];
  for (const upstream of Object.values(snapshot.upstreams)) {
    const chain = chains[upstream.chain];
    const { http, bind } = upstream;
    if (!http || !bind || onlyCluster(chain, targets) !== undefined) continue;
    const name = upstreamLabel(upstream);
    const routes = chainRoutes(chain, { targets, timeoutMs: http.requestTimeoutMs });
    const config = routeConfig(name, [{ name, domains: ["*"], routes }]);
    made.push({ version: chain?.version ?? 0, config });
  }
  for (const edge of Object.values(snapshot.edges)) {
    made.push({
      version: edge.version,
      config: edgeRoutes(edge, String(edge.bind.port), snapshot),
    });
  }
  return made;
}

function publicListener(inbound: InboundPart, snapshot: Snapshot): Json {
  const { http } = inbound;
  const filters = http
    ? [connectionManager(http, {
      prefix: PUBLIC_LISTENER,
      routes: { route_config: oneRoute(PUBLIC_LISTENER, { prefix: "/" }, http) },
      filters: [
        ...(inbound.tokens ? pluginFilters([inbound.tokens]) : []),
        typedJson(`${HTTP}.rbac`, `${FILTERS}.http.rbac.v3.RBAC`, {
          rules: rbacRules(snapshot, true),
        }),
        // Envoy's filter for the calling service, which Postern knows of every request.
        typedJson(`${HTTP}.header_to_metadata`, `${FILTERS}.http.header_to_metadata.v3.Config`),
        ...pluginFilters(inbound.plugins),
        ROUTER,
      ],
    })]
    : [
      typedJson(`${NETWORK}.rbac`, `${FILTERS}.network.rbac.v3.RBAC`, {
        rules: rbacRules(snapshot, false),
        stat_prefix: "connect_authz",
      }),
      tcpProxy(PUBLIC_LISTENER, LOCAL_APP),
    ];
  const transport = typedJson("tls", "extensions.transport_sockets.tls.v3.DownstreamTlsContext", {
    common_tls_context: { tls_params: {} },
    require_client_certificate: true,
  });
  return {
    filter_chains: [{ filters, transport_socket: transport }],
    traffic_direction: "INBOUND",
  };
}

function upstreamListener(
  upstream: UpstreamPart,
  { snapshot, datacenter }: { readonly snapshot: Snapshot; readonly datacenter: string },
): Json {
  const { http, name } = upstream;
  const { targets } = snapshot;
  const chain = snapshot.chains[upstream.chain];
  const cluster = onlyCluster(chain, targets);
  const id = upstreamLabel(upstream);
  const place = `${name}.default.default.${datacenter}`;
  const prefix = `upstream.${place}`;
  if (!http) {
    const filters = [tcpProxy(prefix, cluster ?? "")];
    return { filter_chains: [{ filters }], traffic_direction: "OUTBOUND" };
  }
  const routes = chainRoutes(chain, { targets, timeoutMs: http.requestTimeoutMs });
  const filter = connectionManager(http, {
    prefix,
    routes: cluster === undefined
      ? { rds: rds(id) }
      : { route_config: withoutType(routeConfig(id, [{ name: place, domains: ["*"], routes }])) },
    filters: [...pluginFilters(upstream.plugins), ROUTER],
  });
  return { filter_chains: [{ filters: [filter] }], traffic_direction: "OUTBOUND" };
}

function exposed(part: ExposedPart): Json {
  const name = exposedPathName(part.path).replace("exposed_path_", "exposed_path_filter_");
  const prefix = `${name}_${part.bind.port}`;
  const filter = connectionManager(part.http, {
    prefix,
    routes: { route_config: oneRoute(prefix, { path: part.path }, part.http) },
    filters: [ROUTER],
  });
  const { onlyFrom } = part;
  const match = onlyFrom &&
    { filter_chain_match: { source_prefix_ranges: sourceRanges(onlyFrom) } };
  return { filter_chains: [{ ...match, filters: [filter] }], traffic_direction: "INBOUND" };
}

function sourceRanges(addresses: readonly string[]): readonly Json[] {
  const range = (address_prefix: string, prefix_len: number) => ({ address_prefix, prefix_len });
  const own = addresses.map((ip) => range(ip, ip.includes(":") ? 128 : 32));
  return [range("127.0.0.0", 8), ...own, range("::1", 128)];
}

function oneRoute(name: string, match: Json, { requestTimeoutMs }: HttpRules): Json {
  const timeout = requestTimeoutMs > 0 ? { timeout: durationJson(requestTimeoutMs) } : {};
  const routes = [{ match, route: { cluster: LOCAL_APP, ...timeout } }];
  return withoutType(routeConfig(name, [{ name, domains: ["*"], routes }]));
}

/** Without `@type`: the enclosing field has this type already. */
function withoutType({ "@type": _, ...config }: Json): Json {
  return config;
}

function connectionManager(
  { path, sanitizeForwardedClientCert: sanitizes, headBytes }: HttpRules,
  { prefix, routes, filters }: {
    readonly prefix: string;
    readonly routes: Json;
    readonly filters: readonly Json[];
  },
): Json {
  const isPublic = prefix === PUBLIC_LISTENER;
  const type = `${FILTERS}.network.http_connection_manager.v3.HttpConnectionManager`;
  return typedJson(`${NETWORK}.http_connection_manager`, type, {
    stat_prefix: prefix,
    ...routes,
    http_filters: filters,
    tracing: { random_sampling: {} },
    ...(headBytes !== DEFAULT_HTTP_LIMITS.headBytes && {
      max_request_headers_kb: Math.floor(headBytes / 1_024),
    }),
    ...(isPublic && !sanitizes && {
      forward_client_cert_details: "APPEND_FORWARD",
      set_current_client_cert_details: CALLER_PARTS,
    }),
    upgrade_configs: [{ upgrade_type: "websocket" }],
    ...(path.normalize && { normalize_path: true }),
    ...(path.mergeSlashes && { merge_slashes: true }),
  });
}

function tcpProxy(prefix: string, cluster: string): Json {
  const config = { stat_prefix: prefix, cluster };
  return typedJson(`${NETWORK}.tcp_proxy`, `${FILTERS}.network.tcp_proxy.v3.TcpProxy`, config);
}

function rds(name: string): Json {
  return { config_source: { ads: {}, resource_api_version: "V3" }, route_config_name: name };
}

/** Names only: a plugin's configuration may hold a key. */
function pluginFilters(plugins: readonly PluginUse[]): readonly Json[] {
  return plugins.flatMap(({ plugin }) => {
    const name = FILTER_NAMES[plugin];
    return name === undefined ? [] : [{ name }];
  });
}
