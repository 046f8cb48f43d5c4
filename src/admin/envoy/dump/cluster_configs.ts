/** `configs` of `/config_dump`: the state in Envoy's format, for Consul's tools and scripts. @module */

import { DEFAULT_OUTLIER, type LoadBalancing, type OutlierPolicy } from "../../../balance/mod.ts";
import { INBOUND_KEY, type Snapshot, type UpstreamPart } from "../../../snapshot/mod.ts";
import { clustersOf, type EnvoyClusterView, hostsOf, type TargetCluster } from "../clusters.ts";
import { addressJson, durationJson, type Json, typedJson } from "../listeners.ts";
import { secretsConfigDump } from "../../secrets/secrets_dump.ts";
import type { AdminView } from "../../view.ts";
import { listenerConfigs, namedRoutes } from "./listener_configs.ts";

const API = "type.googleapis.com/envoy";
/** Envoy's default of every limit of a cluster. */
const DEFAULT_LIMIT = 1_024;
const DEFAULT_RING = { minimumSize: 1_024, maximumSize: 8_388_608 };

function clusterConfig(cluster: EnvoyClusterView, snapshot: Snapshot): Json {
  const type = { "@type": `${API}.config.cluster.v3.Cluster`, name: cluster.name };
  switch (cluster.kind) {
    case "local": {
      const inbound = snapshot.inbound[INBOUND_KEY];
      return {
        ...type,
        type: "STATIC",
        connect_timeout: durationJson(inbound?.localConnectTimeoutMs ?? 0),
        load_assignment: {
          cluster_name: cluster.name,
          endpoints: [{ lb_endpoints: [{ endpoint: { address: addressJson(cluster.address) } }] }],
        },
      };
    }
    case "aggregate":
      return {
        ...type,
        cluster_type: typedJson(
          "envoy.clusters.aggregate",
          "extensions.clusters.aggregate.v3.ClusterConfig",
          { clusters: cluster.children },
        ),
        lb_policy: "CLUSTER_PROVIDED",
      };
    case "target":
      return { ...type, ...targetConfig(cluster) };
  }
}

function targetConfig({ name, upstream, resolver, target }: TargetCluster): Json {
  return {
    type: "EDS",
    eds_cluster_config: { eds_config: { ads: {}, resource_api_version: "V3" } },
    connect_timeout: durationJson(target.connectTimeoutMs),
    ...balancingOf(resolver.balancing),
    circuit_breakers: limitsOf(upstream),
    outlier_detection: outlierOf(resolver.outlier),
    transport_socket: typedJson("tls", "extensions.transport_sockets.tls.v3.UpstreamTlsContext", {
      common_tls_context: {
        tls_params: {},
        validation_context: {
          match_typed_subject_alt_names: target.spiffeUris.map((uri) => ({
            san_type: "URI",
            matcher: { exact: uri },
          })),
        },
      },
      sni: target.sni,
    }),
    common_lb_config: { healthy_panic_threshold: {} },
    alt_stat_name: name,
  };
}

/** Envoy's defaults are left out, as Consul leaves them out. */
function limitsOf({ maxConnections, maxPending, maxRequests }: UpstreamPart): Json {
  const threshold = {
    ...(maxConnections !== DEFAULT_LIMIT && { max_connections: maxConnections }),
    ...(maxPending !== DEFAULT_LIMIT && { max_pending_requests: maxPending }),
    ...(maxRequests !== DEFAULT_LIMIT && { max_requests: maxRequests }),
  };
  return Object.keys(threshold).length === 0 ? {} : { thresholds: [threshold] };
}

function outlierOf(policy: OutlierPolicy): Json {
  const own = (key: keyof OutlierPolicy) => policy[key] !== DEFAULT_OUTLIER[key];
  return {
    ...(own("maxFailures") && { consecutive_5xx: policy.maxFailures }),
    ...(own("intervalMs") && { interval: durationJson(policy.intervalMs) }),
    ...(own("baseEjectionMs") && { base_ejection_time: durationJson(policy.baseEjectionMs) }),
    ...(own("maxEjectionMs") && { max_ejection_time: durationJson(policy.maxEjectionMs) }),
    ...(own("maxEjectionPercent") && { max_ejection_percent: policy.maxEjectionPercent }),
    ...(own("enforcingPercent") && { enforcing_consecutive_5xx: policy.enforcingPercent }),
  };
}

function balancingOf(balancing: LoadBalancing): Json {
  switch (balancing.kind) {
    case "round_robin":
      return {};
    case "random":
    case "maglev":
      return { lb_policy: balancing.kind.toUpperCase() };
    case "least_request":
      return {
        lb_policy: "LEAST_REQUEST",
        least_request_lb_config: { choice_count: balancing.choiceCount },
      };
    case "ring_hash": {
      const { minimumSize: least, maximumSize: most } = balancing;
      const sizes = {
        ...(least !== DEFAULT_RING.minimumSize && { minimum_ring_size: String(least) }),
        ...(most !== DEFAULT_RING.maximumSize && { maximum_ring_size: String(most) }),
      };
      const ring = Object.keys(sizes).length > 0 && { ring_hash_lb_config: sizes };
      return { lb_policy: "RING_HASH", ...ring };
    }
  }
}

/** `undefined`: it has no endpoints of its own. */
function endpointConfig(cluster: EnvoyClusterView): Json | undefined {
  if (cluster.kind === "aggregate") return undefined;
  const endpoints = hostsOf(cluster).map(({ address, weight, isUnhealthy }) => ({
    endpoint: { address: addressJson(address) },
    health_status: isUnhealthy ? "UNHEALTHY" : "HEALTHY",
    ...(cluster.kind === "target" && { load_balancing_weight: weight }),
  }));
  return {
    "@type": `${API}.config.endpoint.v3.ClusterLoadAssignment`,
    cluster_name: cluster.name,
    endpoints: [{ locality: {}, lb_endpoints: endpoints }],
  };
}

const ADMIN = "type.googleapis.com/envoy.admin.v3";

/** Dumps in Envoy's order, which scripts rely on. */
export function envoyConfigs(
  view: AdminView,
  { withEndpoints }: { readonly withEndpoints: boolean },
): readonly Json[] {
  const snapshot = view.snapshot();
  return [
    bootstrap(view, snapshot),
    {
      "@type": `${ADMIN}.ClustersConfigDump`,
      dynamic_active_clusters: clustersOf(snapshot).flatMap((cluster) =>
        snapshot
          ? [{ version_info: String(snapshot.version), cluster: clusterConfig(cluster, snapshot) }]
          : []
      ),
    },
    ...(withEndpoints
      ? [{
        "@type": `${ADMIN}.EndpointsConfigDump`,
        dynamic_endpoint_configs: clustersOf(snapshot).map(endpointConfig)
          .filter((config) => config !== undefined)
          .map((config) => ({ endpoint_config: config })),
      }]
      : []),
    {
      "@type": `${ADMIN}.ListenersConfigDump`,
      dynamic_listeners: (snapshot ? listenerConfigs(snapshot, snapshot.datacenter) : []).map(
        ({ name, version, config }) => ({
          name,
          active_state: { version_info: String(version), listener: config },
        }),
      ),
    },
    { "@type": `${ADMIN}.ScopedRoutesConfigDump` },
    {
      "@type": `${ADMIN}.RoutesConfigDump`,
      dynamic_route_configs: (snapshot ? namedRoutes(snapshot) : []).map(({ version, config }) => ({
        version_info: String(version),
        route_config: config,
      })),
    },
    secretsConfigDump(view),
  ];
}

function bootstrap(view: AdminView, snapshot: Snapshot | undefined): Json {
  const interval = view.source()?.metrics?.flushInterval ?? "";
  return {
    "@type": `${ADMIN}.BootstrapConfigDump`,
    bootstrap: {
      node: {
        id: snapshot?.proxyId ?? "",
        cluster: snapshot?.service ?? "",
        metadata: { namespace: "default", partition: "default" },
        user_agent_name: "postern",
      },
      ...(interval !== "" && { stats_flush_interval: interval }),
    },
  };
}
