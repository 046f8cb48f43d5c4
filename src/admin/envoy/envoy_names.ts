/** The table from Postern's metrics to Envoy's statistics, and their `# HELP` texts. @module */

import type { Labels } from "../../base/mod.ts";

/** The subject of a sample; `behind`: the cluster behind a listener, inbound the application. */
type Scope =
  | "secret"
  | "source"
  | "listener"
  | "cluster"
  | "credentials"
  | "target"
  | "agent"
  | "metrics"
  | "server"
  | "control_plane"
  | "http"
  | "tcp"
  | "behind";

export interface EnvoyName {
  readonly sample: string;
  readonly scope: Scope;
  readonly stat: string;
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
  /** Envoy counts what cannot happen here. */
  readonly isZero?: true;
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
  ["listener", "connections_refused_total", "downstream_cx_overflow", {
    labels: { limit: "listener" },
  }],
  ["listener", "connections_refused_total", "downstream_global_cx_overflow", {
    labels: { limit: "process" },
  }],
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
  ["target", "endpoints_ejected", "outlier_detection.ejections_active"],
  ["credentials", "on_demand_cert_requested_total", "on_demand_secret.cert_requested"],
  ["credentials", "on_demand_cert_updated_total", "on_demand_secret.cert_updated"],
  ["credentials", "on_demand_cert_active", "on_demand_secret.cert_active"],
  ["http", "connections_opened_total", "downstream_cx_total", HTTP],
  ["http", "connections_active", "downstream_cx_active", HTTP],
  ["agent", "agent_requests_active", "upstream_rq_active"],
  ["agent", "agent_requests_total", "upstream_rq_completed"],
  ["metrics", "metrics_requests_active", "downstream_rq_active"],
  ["metrics", "metrics_requests_total", "downstream_rq_total"],
  ["control_plane", "consul_connected", "connected_state"],
  ["server", "state", "state"],
  ["server", "workers", "concurrency"],
  ["server", "connections_active", "total_connections"],
  ["server", "heap_used_bytes", "memory_allocated"],
  ["server", "heap_size_bytes", "memory_heap_size"],
  ["server", "process_resident_memory_bytes", "memory_physical_size"],
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
  ["tcp", "connections_opened_total", "downstream_cx_no_route", { ...PLAIN, isZero: true }],
  ["tcp", "received_bytes_total", "downstream_cx_rx_bytes_total", PLAIN],
  ["tcp", "sent_bytes_total", "downstream_cx_tx_bytes_total", PLAIN],
  ["tcp", "received_bytes_waiting", "downstream_cx_rx_bytes_buffered", PLAIN],
  ["tcp", "sent_bytes_waiting", "downstream_cx_tx_bytes_buffered", PLAIN],
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

/** Texts by the name for Prometheus without `envoy_`. */
export const ENVOY_HELP: Readonly<Record<string, string>> = {
  cluster_client_ssl_socket_factory_ssl_context_update_by_sds:
    "Times that the TLS settings towards the cluster were renewed because a secret came",
  cluster_client_ssl_socket_factory_upstream_context_secrets_not_ready:
    "Connections to the cluster refused because a secret has not come yet",
  cluster_membership_healthy: "Instances of the cluster that balancing may choose now",
  cluster_membership_total: "Instances of the cluster that are known now",
  cluster_outlier_detection_ejections_active:
    "Instances of the cluster that passive health keeps out now",
  cluster_ssl_certificate_expiration_unix_time_seconds:
    "When the certificate shown to the cluster expires, in seconds since 1970",
  cluster_ssl_fail_verify_error:
    "Connections to the cluster ended because the instance's certificate was not accepted",
  cluster_ssl_session_reused: "TLS handshakes with the cluster that resumed an earlier session",
  cluster_upstream_cx_active: "Connections to the cluster that are open now",
  cluster_upstream_cx_connect_fail:
    "Connections to the cluster that could not be opened, timeouts included",
  cluster_upstream_cx_connect_timeout:
    "Connections to the cluster that were not open within the connect timeout",
  cluster_upstream_cx_none_healthy: "Requests that failed because no instance could be chosen",
  cluster_upstream_cx_rx_bytes_total:
    "Bytes received from the cluster over TCP; open connections are counted once a second",
  cluster_upstream_cx_total: "Connections opened to the cluster",
  cluster_upstream_cx_tx_bytes_total:
    "Bytes sent to the cluster over TCP; open connections are counted once a second",
  cluster_upstream_rq: "HTTP requests sent to the cluster that ended, by status of the response",
  cluster_upstream_rq_active: "HTTP requests sent to the cluster whose response has not ended",
  cluster_upstream_rq_completed: "HTTP requests sent to the cluster that ended",
  cluster_upstream_rq_pending_active: "HTTP requests that wait for a connection to the cluster now",
  cluster_upstream_rq_pending_overflow:
    "HTTP requests refused because a limit of the cluster was reached",
  cluster_upstream_rq_pending_total: "HTTP requests that had to wait for a connection",
  cluster_upstream_rq_retry: "HTTP requests sent again after a failed attempt",
  cluster_upstream_rq_retry_limit_exceeded: "HTTP requests that failed with no retry left",
  cluster_upstream_rq_rx_reset: "HTTP requests whose connection or stream the instance broke off",
  cluster_upstream_rq_time:
    "Milliseconds from the end of a request sent to the cluster to the end of its response",
  cluster_upstream_rq_timeout: "HTTP requests that were not answered within their timeout",
  cluster_upstream_rq_total: "HTTP requests sent to the cluster; each retry counts",
  cluster_upstream_rq_xx:
    "HTTP requests sent to the cluster that ended, by class of the response's status",
  control_plane_connected_state: "1 while the agent or a server of Consul answers, else 0",
  http_downstream_cx_active: "Connections of callers that are open now",
  http_downstream_cx_protocol_error: "Requests of callers that were malformed HTTP",
  http_downstream_cx_total: "Connections accepted from callers",
  http_downstream_rq_active: "HTTP requests of callers whose response has not ended",
  http_downstream_rq_completed: "HTTP responses sent to callers",
  http_downstream_rq_idle_timeout: "HTTP requests ended because nothing moved for the idle time",
  http_downstream_rq_rx_reset: "HTTP requests that the caller broke off",
  http_downstream_rq_time: "Milliseconds from the head of a request to the end of its response",
  http_downstream_rq_total: "HTTP requests received; counted when the head is read",
  http_downstream_rq_xx: "HTTP responses sent to callers, by class of their status",
  http_rq_total: "HTTP requests sent on from this listener; each retry counts",
  listener_downstream_cx_active: "Connections of the listener that are open now",
  listener_downstream_cx_overflow:
    "Connections refused because the listener's limit on connections was reached",
  listener_downstream_global_cx_overflow:
    "Connections refused because the process's limit on connections was reached",
  listener_downstream_cx_total: "Connections accepted by the listener",
  listener_http_downstream_rq_completed: "HTTP responses sent by the listener",
  listener_http_downstream_rq_xx: "HTTP responses sent by the listener, by class of their status",
  listener_on_demand_secret_cert_active:
    "Certificates fetched on demand that are held in memory now",
  listener_on_demand_secret_cert_requested:
    "Server names whose certificate was requested from the source",
  listener_on_demand_secret_cert_updated:
    "Certificates that the source delivered, first ones and renewals",
  listener_server_ssl_socket_factory_downstream_context_secrets_not_ready:
    "Connections refused because a secret of the listener has not come yet",
  listener_server_ssl_socket_factory_ssl_context_update_by_sds:
    "Times that the listener's TLS settings were renewed because a secret came",
  listener_ssl_certificate_expiration_unix_time_seconds:
    "When the listener's certificate expires, in seconds since 1970",
  listener_ssl_connection_error: "TLS handshakes with callers that failed",
  listener_ssl_fail_verify_error:
    "Connections ended because the caller's certificate is of no CA that is trusted",
  listener_ssl_fail_verify_san:
    "Connections ended because the caller showed no certificate, or one of another mesh or name",
  listener_ssl_session_reused: "TLS handshakes of the listener that resumed an earlier session",
  sds_control_plane_connected_state: "1 while the SDS server of the secret answers, else 0",
  sds_init_fetch_timeout:
    "Times that the first value of the secret had not come within its time limit",
  sds_key_rotation_failed: "Values of the secret from files that were refused",
  sds_update_attempt: "Times that the secret was requested from the SDS server or came from it",
  sds_update_failure: "Streams to the SDS server that failed while the secret was requested",
  sds_update_rejected: "Values of the secret from the SDS server that were refused",
  sds_update_success: "Values of the secret that were accepted",
  sds_update_time: "When the secret was last accepted, in milliseconds since 1970",
  server_concurrency: "Data workers that should run",
  server_days_until_first_cert_expiring: "Whole days until the first certificate in use expires",
  server_hot_restart_epoch: "Always 0: a new process does not take over statistics",
  server_live: "1 unless the proxy drains, then 0",
  server_memory_allocated: "Bytes of objects of all threads",
  server_memory_heap_size: "Bytes that the heaps of all threads reserve",
  server_memory_physical_size: "Resident memory of the process in bytes",
  server_parent_connections: "Always 0: connections of an earlier process are not counted",
  server_state: "0: live, 1: draining, 2: pre-initializing, 3: initializing",
  server_total_connections: "Connections accepted by all listeners that are open now",
  server_uptime: "Seconds since the start of the process",
  server_version: "The first six digits of the commit as a number; 0 when running from source",
  tcp_downstream_cx_no_route:
    "Always 0: a connection is accepted only where its upstream has a cluster",
  tcp_downstream_cx_rx_bytes_buffered:
    "Bytes received from callers over TCP that the other side has not taken yet",
  tcp_downstream_cx_rx_bytes_total: "Bytes received from callers over TCP",
  tcp_downstream_cx_tx_bytes_buffered:
    "Bytes for callers over TCP that the callers have not taken yet",
  tcp_downstream_cx_total: "TCP connections accepted from callers",
  tcp_downstream_cx_tx_bytes_total: "Bytes sent to callers over TCP",
};

/** Names outside of the table contain the method of a gRPC call. */
export function envoyHelp(prometheus: string): string {
  const isCall = prometheus.startsWith("cluster_grpc_");
  return ENVOY_HELP[prometheus] ??
    (isCall ? "gRPC calls of the method to the cluster that ended" : prometheus);
}
