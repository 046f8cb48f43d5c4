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

const NOT_READY = "context_secrets_not_ready";
const INBOUND = { direction: "inbound" } as const;
const OUTBOUND = { direction: "outbound" } as const;

/** Left: our metric, right: Envoy's statistic below its scope. */
export const ENVOY_NAMES: readonly EnvoyName[] = [
  { sample: "sds_update_attempt_total", scope: "secret", stat: "update_attempt" },
  { sample: "sds_update_success_total", scope: "secret", stat: "update_success" },
  { sample: "sds_update_failure_total", scope: "secret", stat: "update_failure" },
  { sample: "sds_update_rejected_total", scope: "secret", stat: "update_rejected" },
  { sample: "secret_updates_total", scope: "secret", stat: "update_success", notSds: true },
  {
    sample: "secret_rotation_failed_total",
    scope: "secret",
    stat: "key_rotation_failed",
    notSds: true,
  },
  { sample: "secret_init_fetch_timeouts_total", scope: "secret", stat: "init_fetch_timeout" },
  { sample: "sds_connected_state", scope: "source", stat: "control_plane.connected_state" },
  { sample: "connections_opened_total", scope: "listener", stat: "downstream_cx_total" },
  { sample: "connections_active", scope: "listener", stat: "downstream_cx_active" },
  { sample: "tls_resumed_total", scope: "listener", stat: "ssl.session_reused", labels: INBOUND },
  { sample: "tls_resumed_total", scope: "cluster", stat: "ssl.session_reused", labels: OUTBOUND },
  {
    sample: "secrets_not_ready_total",
    scope: "listener",
    stat: `server_ssl_socket_factory.downstream_${NOT_READY}`,
    labels: INBOUND,
  },
  {
    sample: "secrets_not_ready_total",
    scope: "cluster",
    stat: `client_ssl_socket_factory.upstream_${NOT_READY}`,
    labels: OUTBOUND,
  },
  {
    sample: "connections_ended_total",
    scope: "listener",
    stat: "ssl.connection_error",
    labels: { outcome: "handshake_failed" },
  },
  {
    sample: "connections_ended_total",
    scope: "listener",
    stat: "ssl.fail_verify_error",
    labels: { outcome: "chain_untrusted" },
  },
  // A chain that is good and an identity that is not; no certificate at all counts here, too.
  {
    sample: "connections_ended_total",
    scope: "listener",
    stat: "ssl.fail_verify_san",
    labels: { outcome: "identity_invalid" },
  },
  {
    sample: "endpoint_failures_total",
    scope: "target",
    stat: "ssl.fail_verify_error",
    labels: { code: "endpoint_untrusted" },
  },
  {
    sample: "on_demand_cert_requested_total",
    scope: "credentials",
    stat: "on_demand_secret.cert_requested",
  },
  {
    sample: "on_demand_cert_updated_total",
    scope: "credentials",
    stat: "on_demand_secret.cert_updated",
  },
  { sample: "on_demand_cert_active", scope: "credentials", stat: "on_demand_secret.cert_active" },
  { sample: "connections_opened_total", scope: "http", stat: "downstream_cx_total", http: true },
  { sample: "connections_active", scope: "http", stat: "downstream_cx_active", http: true },
  { sample: "agent_requests_active", scope: "agent", stat: "upstream_rq_active" },
  { sample: "agent_requests_total", scope: "agent", stat: "upstream_rq_completed" },
  { sample: "metrics_requests_active", scope: "metrics", stat: "downstream_rq_active" },
  { sample: "metrics_requests_total", scope: "metrics", stat: "downstream_rq_total" },
  { sample: "http_requests_total", scope: "http", stat: "downstream_rq_total" },
  { sample: "http_requests_active", scope: "http", stat: "downstream_rq_active" },
  { sample: "http_request_duration_ms", scope: "http", stat: "downstream_rq_time" },
  { sample: "http_responses_total", scope: "http", stat: "downstream_rq_completed" },
  { sample: "http_responses_total", scope: "http", stat: "downstream_rq", by: "class" },
  ...flagged("http", "downstream_rq_idle_timeout", "SI"),
  ...flagged("http", "downstream_rq_rx_reset", "DC", "DR"),
  ...flagged("http", "downstream_cx_protocol_error", "DPE"),
  { sample: "connections_opened_total", scope: "tcp", stat: "downstream_cx_total", http: false },
  {
    sample: "received_bytes_total",
    scope: "tcp",
    stat: "downstream_cx_rx_bytes_total",
    http: false,
  },
  { sample: "sent_bytes_total", scope: "tcp", stat: "downstream_cx_tx_bytes_total", http: false },
  { sample: "upstream_connections_total", scope: "behind", stat: "upstream_cx_total" },
  { sample: "upstream_connections_active", scope: "behind", stat: "upstream_cx_active" },
  { sample: "upstream_connect_failures_total", scope: "behind", stat: "upstream_cx_connect_fail" },
  {
    sample: "upstream_connect_timeouts_total",
    scope: "behind",
    stat: "upstream_cx_connect_timeout",
  },
  { sample: "upstream_sent_bytes_total", scope: "behind", stat: "upstream_cx_tx_bytes_total" },
  { sample: "upstream_received_bytes_total", scope: "behind", stat: "upstream_cx_rx_bytes_total" },
  { sample: "http_upstream_requests_total", scope: "http", stat: "rq_total" },
  { sample: "http_upstream_requests_active", scope: "behind", stat: "upstream_rq_active" },
  { sample: "http_upstream_requests_total", scope: "behind", stat: "upstream_rq_total" },
  ...ofRoute(
    { sample: "http_upstream_responses_total", stat: "upstream_rq_completed" },
    { sample: "http_upstream_responses_total", stat: "upstream_rq", by: "status" },
    { sample: "http_upstream_time_ms", stat: "upstream_rq_time" },
    { sample: "http_retries_total", stat: "upstream_rq_retry" },
    { sample: "grpc_calls_total", stat: "grpc", by: "call" },
  ),
  { sample: "http_pending_total", scope: "behind", stat: "upstream_rq_pending_total" },
  { sample: "http_pending_active", scope: "behind", stat: "upstream_rq_pending_active" },
  { sample: "http_upstream_connections_total", scope: "behind", stat: "upstream_cx_total" },
  { sample: "http_upstream_connections_active", scope: "behind", stat: "upstream_cx_active" },
  {
    sample: "http_upstream_connect_failures_total",
    scope: "behind",
    stat: "upstream_cx_connect_fail",
  },
  {
    sample: "http_upstream_connect_timeouts_total",
    scope: "behind",
    stat: "upstream_cx_connect_timeout",
  },
  ...flagged("behind", "upstream_rq_timeout", "UT"),
  ...flagged("behind", "upstream_rq_rx_reset", "UC", "UR"),
  ...flagged("behind", "upstream_rq_pending_overflow", "UO"),
  ...flagged("behind", "upstream_rq_retry_limit_exceeded", "URX"),
  ...flagged("behind", "upstream_cx_none_healthy", "UH"),
];

/** Outcomes of a request, independent of the number of clusters that were tried. */
function ofRoute(
  ...names: readonly Pick<EnvoyName, "sample" | "stat" | "by">[]
): readonly EnvoyName[] {
  return names.map((name) => ({ ...name, scope: "behind", ofRoute: true }));
}

/** Exchanges that had one of these response flags. */
function flagged(scope: Scope, stat: string, ...flags: readonly string[]): readonly EnvoyName[] {
  return flags.map((flag) => ({
    sample: "http_response_flags_total",
    scope,
    stat,
    labels: { flag },
  }));
}
