/** Clusters and their endpoints as Envoy's `/config_dump` has them. @module */

import { DEFAULT_OUTLIER, type LoadBalancing, type OutlierPolicy } from "../../../balance/mod.ts";
import { INBOUND_KEY, type Snapshot, type UpstreamPart } from "../../../snapshot/mod.ts";
import { type EnvoyClusterView, hostsOf, type TargetCluster } from "../clusters.ts";
import { addressJson, durationJson, type Json } from "../json.ts";

const API = "type.googleapis.com/envoy";
/** Envoy's default of every limit of a cluster. */
const DEFAULT_LIMIT = 1_024;
const DEFAULT_RING = { minimumSize: 1_024, maximumSize: 8_388_608 };

export function clusterConfig(cluster: EnvoyClusterView, snapshot: Snapshot): Json {
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
        cluster_type: {
          name: "envoy.clusters.aggregate",
          typed_config: {
            "@type": `${API}.extensions.clusters.aggregate.v3.ClusterConfig`,
            clusters: cluster.children,
          },
        },
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
    transport_socket: {
      name: "tls",
      typed_config: {
        "@type": `${API}.extensions.transport_sockets.tls.v3.UpstreamTlsContext`,
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
      },
    },
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
    case "ring_hash":
      return { lb_policy: "RING_HASH", ...ringOf(balancing) };
  }
}

function ringOf(
  { minimumSize, maximumSize }: Extract<LoadBalancing, { kind: "ring_hash" }>,
): Json {
  const sizes = {
    ...(minimumSize !== DEFAULT_RING.minimumSize && { minimum_ring_size: String(minimumSize) }),
    ...(maximumSize !== DEFAULT_RING.maximumSize && { maximum_ring_size: String(maximumSize) }),
  };
  return Object.keys(sizes).length === 0 ? {} : { ring_hash_lb_config: sizes };
}

/** `undefined`: it has no endpoints of its own. */
export function endpointConfig(cluster: EnvoyClusterView): Json | undefined {
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
