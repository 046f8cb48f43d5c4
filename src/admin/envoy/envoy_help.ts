/** The meaning of each of Envoy's statistics here, for `# HELP`. Pure. @module */

/** Texts by the name for Prometheus without `envoy_`. */
export const ENVOY_HELP: Readonly<Record<string, string>> = {
  cluster_client_ssl_socket_factory_ssl_context_update_by_sds:
    "Times that the TLS settings towards the cluster were renewed because a secret came",
  cluster_client_ssl_socket_factory_upstream_context_secrets_not_ready:
    "Connections to the cluster refused because a secret has not come yet",
  cluster_membership_healthy: "Instances of the cluster that balancing may choose now",
  cluster_membership_total: "Instances of the cluster that are known now",
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
    "Bytes received from the cluster over TCP; counted when a connection ends",
  cluster_upstream_cx_total: "Connections opened to the cluster",
  cluster_upstream_cx_tx_bytes_total:
    "Bytes sent to the cluster over TCP; counted when a connection ends",
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
  server_days_until_first_cert_expiring: "Whole days until the first certificate in use expires",
  tcp_downstream_cx_rx_bytes_total: "Bytes received from callers over TCP",
  tcp_downstream_cx_total: "TCP connections accepted from callers",
  tcp_downstream_cx_tx_bytes_total: "Bytes sent to callers over TCP",
};

/** Names outside of the table contain the method of a gRPC call. */
export function envoyHelp(prometheus: string): string {
  const isCall = prometheus.startsWith("cluster_grpc_");
  return ENVOY_HELP[prometheus] ??
    (isCall ? "gRPC calls of the method to the cluster that ended" : prometheus);
}
