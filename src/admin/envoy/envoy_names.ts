/** The table from Postern's metrics to Envoy's statistics. `envoy_stats.ts` applies it. @module */

import type { Labels } from "../../base/mod.ts";

/**
 * The subject of a sample: a secret, listeners, clusters, the agent, an address for metrics, the HTTP or TCP
 * side of a listener, or the cluster behind it, which is the local application for an inbound listener.
 */
export type Scope =
  | "secret"
  | "source"
  | "listener"
  | "cluster"
  | "credentials"
  | "target"
  | "agent"
  | "metrics"
  | "http"
  | "tcp"
  | "behind";

export interface EnvoyName {
  readonly sample: string;
  readonly scope: Scope;
  readonly stat: string;
  /** Only samples with these labels. */
  readonly labels?: Labels;
  /**
   * The label `status` becomes a part of the name: the class (`_2xx`), or also each (`_200`). Envoy has
   * classes only for responses to downstream. A gRPC call has `service`, `method` and `status` there.
   */
  readonly by?: "class" | "status" | "call";
  /** Only listeners that speak HTTP, or only those that do not. */
  readonly http?: boolean;
  /** Counts for the cluster that the route names; with failover the called cluster is another one. */
  readonly ofRoute?: true;
  /** Only secrets that do not come from an SDS server, which counts for itself. */
  readonly notSds?: true;
}

const LISTENER_NOT_READY = "server_ssl_socket_factory.downstream_context_secrets_not_ready";
const CLUSTER_NOT_READY = "client_ssl_socket_factory.upstream_context_secrets_not_ready";
const INBOUND = { labels: { direction: "inbound" } };
const OUTBOUND = { labels: { direction: "outbound" } };
const NOT_SDS = { notSds: true } as const;
const HTTP = { http: true };
const PLAIN = { http: false };
/** An outcome of a request, independent of the number of clusters that were tried. */
const OF_ROUTE = { ofRoute: true } as const;

type Row = readonly [
  scope: Scope,
  sample: string,
  stat: string,
  only?: Omit<EnvoyName, "sample" | "scope" | "stat">,
];

/** Scope, our metric, and Envoy's statistic below its scope. */
const ROWS: readonly Row[] = [
  ["secret", "sds_update_attempt_total", "update_attempt"],
  ["secret", "sds_update_success_total", "update_success"],
  ["secret", "sds_update_failure_total", "update_failure"],
  ["secret", "sds_update_rejected_total", "update_rejected"],
  ["secret", "secret_updates_total", "update_success", NOT_SDS],
  ["secret", "secret_rotation_failed_total", "key_rotation_failed", NOT_SDS],
  ["secret", "secret_init_fetch_timeouts_total", "init_fetch_timeout"],
  ["source", "sds_connected_state", "control_plane.connected_state"],
  ["listener", "connections_opened_total", "downstream_cx_total"],
  ["listener", "connections_active", "downstream_cx_active"],
  ["listener", "tls_resumed_total", "ssl.session_reused", INBOUND],
  ["cluster", "tls_resumed_total", "ssl.session_reused", OUTBOUND],
  ["listener", "secrets_not_ready_total", LISTENER_NOT_READY, INBOUND],
  ["cluster", "secrets_not_ready_total", CLUSTER_NOT_READY, OUTBOUND],
  ended("ssl.connection_error", "handshake_failed"),
  ended("ssl.fail_verify_error", "chain_untrusted"),
  // A chain that is good and an identity that is not; no certificate at all counts here, too.
  ended("ssl.fail_verify_san", "identity_invalid"),
  ["target", "endpoint_failures_total", "ssl.fail_verify_error", {
    labels: { code: "endpoint_untrusted" },
  }],
  ["credentials", "on_demand_cert_requested_total", "on_demand_secret.cert_requested"],
  ["credentials", "on_demand_cert_updated_total", "on_demand_secret.cert_updated"],
  ["credentials", "on_demand_cert_active", "on_demand_secret.cert_active"],
  ["http", "connections_opened_total", "downstream_cx_total", HTTP],
  ["http", "connections_active", "downstream_cx_active", HTTP],
  ["agent", "agent_requests_active", "upstream_rq_active"],
  ["agent", "agent_requests_total", "upstream_rq_completed"],
  ["metrics", "metrics_requests_active", "downstream_rq_active"],
  ["metrics", "metrics_requests_total", "downstream_rq_total"],
  ["http", "http_requests_total", "downstream_rq_total"],
  ["http", "http_requests_active", "downstream_rq_active"],
  ["http", "http_request_duration_ms", "downstream_rq_time"],
  ["http", "http_responses_total", "downstream_rq_completed"],
  ["http", "http_responses_total", "downstream_rq", { by: "class" }],
  flagged("http", "downstream_rq_idle_timeout", "SI"),
  flagged("http", "downstream_rq_rx_reset", "DC"),
  flagged("http", "downstream_rq_rx_reset", "DR"),
  flagged("http", "downstream_cx_protocol_error", "DPE"),
  ["tcp", "connections_opened_total", "downstream_cx_total", PLAIN],
  ["tcp", "received_bytes_total", "downstream_cx_rx_bytes_total", PLAIN],
  ["tcp", "sent_bytes_total", "downstream_cx_tx_bytes_total", PLAIN],
  ["behind", "upstream_connections_total", "upstream_cx_total"],
  ["behind", "upstream_connections_active", "upstream_cx_active"],
  ["behind", "upstream_connect_failures_total", "upstream_cx_connect_fail"],
  ["behind", "upstream_connect_timeouts_total", "upstream_cx_connect_timeout"],
  ["behind", "upstream_sent_bytes_total", "upstream_cx_tx_bytes_total"],
  ["behind", "upstream_received_bytes_total", "upstream_cx_rx_bytes_total"],
  ["http", "http_upstream_requests_total", "rq_total"],
  ["behind", "http_upstream_requests_active", "upstream_rq_active"],
  ["behind", "http_upstream_requests_total", "upstream_rq_total"],
  ["behind", "http_upstream_responses_total", "upstream_rq_completed", OF_ROUTE],
  ["behind", "http_upstream_responses_total", "upstream_rq", { ...OF_ROUTE, by: "status" }],
  ["behind", "http_upstream_time_ms", "upstream_rq_time", OF_ROUTE],
  ["behind", "http_retries_total", "upstream_rq_retry", OF_ROUTE],
  ["behind", "grpc_calls_total", "grpc", { ...OF_ROUTE, by: "call" }],
  ["behind", "http_pending_total", "upstream_rq_pending_total"],
  ["behind", "http_pending_active", "upstream_rq_pending_active"],
  ["behind", "http_upstream_connections_total", "upstream_cx_total"],
  ["behind", "http_upstream_connections_active", "upstream_cx_active"],
  ["behind", "http_upstream_connect_failures_total", "upstream_cx_connect_fail"],
  ["behind", "http_upstream_connect_timeouts_total", "upstream_cx_connect_timeout"],
  flagged("behind", "upstream_rq_timeout", "UT"),
  flagged("behind", "upstream_rq_rx_reset", "UC"),
  flagged("behind", "upstream_rq_rx_reset", "UR"),
  flagged("behind", "upstream_rq_pending_overflow", "UO"),
  flagged("behind", "upstream_rq_retry_limit_exceeded", "URX"),
  flagged("behind", "upstream_cx_none_healthy", "UH"),
];

export const ENVOY_NAMES: readonly EnvoyName[] = ROWS.map(([scope, sample, stat, only]) => {
  return { scope, sample, stat, ...only };
});

function ended(stat: string, outcome: string): Row {
  return ["listener", "connections_ended_total", stat, { labels: { outcome } }];
}

/** Exchanges that had this response flag. */
function flagged(scope: Scope, stat: string, flag: string): Row {
  return [scope, "http_response_flags_total", stat, { labels: { flag } }];
}
