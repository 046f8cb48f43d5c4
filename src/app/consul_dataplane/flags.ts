/** Every setting of `postern dataplane`; all but `-http-port` are consul-dataplane's. @module */

import { readFlagTable } from "../flags/parse_flags.ts";

export const UNUSED = readFlagTable(`
Taken, with nothing behind it
  -mode sidecar [$DP_MODE] {mode} (default: sidecar)
      sidecar is the only one there is.
  -xds-bind-addr ADDRESS [$DP_XDS_BIND_ADDR] {xdsServer.bindAddress}
      There is no xDS inside.
  -xds-bind-port PORT [$DP_XDS_BIND_PORT] {xdsServer.bindPort number}
      The same.
  -consul-dns-bind-addr ADDRESS [$DP_CONSUL_DNS_BIND_ADDR] {dnsServer.bindAddress}
      The DNS proxy is not there.
  -consul-dns-bind-port PORT [$DP_CONSUL_DNS_BIND_PORT] {dnsServer.bindPort number} (default: -1)
      The DNS proxy is not there.
  -envoy-executable-path FILE [$DP_ENVOY_EXECUTABLE_PATH] {envoy.executablePath}
      There is no Envoy.
  -envoy-drain-strategy HOW [$DP_ENVOY_DRAIN_STRATEGY] {envoy.drainStrategy}
      All callers are asked to leave at once.
  -dump-envoy-config-on-exit [$DP_DUMP_ENVOY_CONFIG_ON_EXIT] {envoy.dumpEnvoyConfigOnExitEnabled}
      See /config_dump of the admin server.
  -telemetry-prom-retention-time DURATION [$DP_TELEMETRY_PROM_RETENTION_TIME]
      {telemetry.prometheus.retentionTime duration}
      Metrics are kept as long as what they are about.
`);

// consul-ecs writes the second key of -tls-server-name into its files; consul-k8s gives
// -telemetry-prom-ca-certs-file.
export const DATAPLANE_FLAGS = [
  ...readFlagTable(`
Consul's servers
  -addresses ADDRESS [$DP_CONSUL_ADDRESSES] {consul.addresses}
      An address, a DNS name (all addresses of it), or exec=COMMAND that prints addresses.
  -grpc-port PORT [$DP_CONSUL_GRPC_PORT] {consul.grpcPort number} (default: 8502)
      Port of the servers for gRPC.
  -http-port PORT [$POSTERN_HTTP_PORT] (default: 8501, with -tls-disabled 8500)
      Port of the servers for the HTTP API, which consul-dataplane does without: what it has over
      xDS, Postern reads there.
  -server-watch-disabled [$DP_SERVER_WATCH_DISABLED] {consul.serverWatchDisabled}
      Use only what -addresses gives, as behind a load balancer.
  -ca-certs PATH [$DP_CA_CERTS] {consul.tls.caCertsPath} (default: what this system trusts)
      CA certificates that may have signed the servers', a file or a directory.
  -tls-cert FILE [$DP_TLS_CERT] {consul.tls.certFile}
      Certificate to show to the servers.
  -tls-key FILE [$DP_TLS_KEY] {consul.tls.keyFile}
      Key of that certificate.
  -tls-server-name NAME [$DP_TLS_SERVER_NAME] {consul.tls.serverName|consul.tls.tlsServerName}
      (default: -addresses)
      Name that the servers' certificates must have.
  -tls-disabled [$DP_TLS_DISABLED] {consul.tls.disabled}
      Talk to the servers in plain text; who reads it has the token.
  -tls-insecure-skip-verify [$DP_TLS_INSECURE_SKIP_VERIFY] {consul.tls.insecureSkipVerify}
      Do not check the servers' certificates; who answers gets the token.
The ACL token
  -credential-type static|login [$DP_CREDENTIAL_TYPE] {consul.credentials.type} (default: none)
      static, with -static-token, or login, with the flags of that name.
  -static-token TOKEN [$DP_CREDENTIAL_STATIC_TOKEN] {consul.credentials.static.token}
      ACL token. Everyone on this machine can read it here.
  -login-auth-method NAME [$DP_CREDENTIAL_LOGIN_AUTH_METHOD] {consul.credentials.login.authMethod}
      Log in with this auth method for a token, and log out at the end.
  -login-bearer-token-path FILE [$DP_CREDENTIAL_LOGIN_BEARER_TOKEN_PATH]
      {consul.credentials.login.bearerTokenPath}
      File with the bearer token to log in with; read for each login.
  -login-bearer-token TOKEN [$DP_CREDENTIAL_LOGIN_BEARER_TOKEN]
      {consul.credentials.login.bearerToken}
      The bearer token itself. Everyone on this machine can read it here.
  -login-meta KEY=VALUE ... {consul.credentials.login.meta map}
      What the token's description says. May be repeated. [$DP_CREDENTIAL_LOGIN_META1 to 9]
  -login-datacenter NAME [$DP_CREDENTIAL_LOGIN_DATACENTER] {consul.credentials.login.datacenter}
      Datacenter to log in to.
  -login-namespace NAME [$DP_CREDENTIAL_LOGIN_NAMESPACE] {consul.credentials.login.namespace}
      Namespace of the auth method (Consul Enterprise).
  -login-partition NAME [$DP_CREDENTIAL_LOGIN_PARTITION] {consul.credentials.login.partition}
      Partition of the auth method (Consul Enterprise).
The proxy
  -proxy-id ID [$DP_PROXY_ID] {proxy.id}
      The registered proxy to run.
  -proxy-id-path FILE [$DP_PROXY_ID_PATH] {proxy.idPath}
      File with that id.
  -proxy-node-name NAME [$DP_PROXY_NODE_NAME] {proxy.nodeName}
      Node in the catalog that the proxy is registered on.
  -proxy-node-id ID [$DP_PROXY_NODE_ID] {proxy.nodeID}
      The same by its id. Counts before -proxy-node-name.
  -proxy-namespace NAME [$DP_PROXY_NAMESPACE] {proxy.namespace}
      Namespace of the proxy (Consul Enterprise).
  -proxy-partition NAME [$DP_PROXY_PARTITION] {proxy.partition}
      Partition of the proxy (Consul Enterprise).
  -proxy-service-id ID [$DP_PROXY_SERVICE_ID] {service.serviceID}
      Old name of -proxy-id. Old names count only where no new one is given.
  -proxy-service-id-path FILE [$DP_PROXY_SERVICE_ID_PATH] {service.serviceIDPath}
      Old name of -proxy-id-path.
  -service-node-name NAME [$DP_SERVICE_NODE_NAME] {service.nodeName}
      Old name of -proxy-node-name.
  -service-node-id ID [$DP_SERVICE_NODE_ID] {service.nodeID}
      Old name of -proxy-node-id.
  -service-namespace NAME [$DP_SERVICE_NAMESPACE] {service.namespace}
      Old name of -proxy-namespace.
  -service-partition NAME [$DP_SERVICE_PARTITION] {service.partition}
      Old name of -proxy-partition.
Running
  -envoy-admin-bind-address ADDRESS [$DP_ENVOY_ADMIN_BIND_ADDRESS] {envoy.adminBindAddress}
      (default: 127.0.0.1)
      Address of the admin server.
  -envoy-admin-bind-port PORT [$DP_ENVOY_ADMIN_BIND_PORT] {envoy.adminBindPort number}
      (default: 19000)
      Port of the admin server.
  -envoy-ready-bind-address ADDRESS [$DP_ENVOY_READY_BIND_ADDRESS] {envoy.readyBindAddress}
      Also answer GET /ready on this address, and on the port of the next flag.
  -envoy-ready-bind-port PORT [$DP_ENVOY_READY_BIND_PORT] {envoy.readyBindPort number} (default: 0)
      Port for that; 0 is none.
  -envoy-concurrency N [$DP_ENVOY_CONCURRENCY] {envoy.concurrency number} (default: 1)
      Threads that carry traffic.
  -envoy-drain-time-seconds N [$DP_ENVOY_DRAIN_TIME] {envoy.drainTimeSeconds number} (default: 30)
      How long open connections may go on after POST /drain_listeners of the admin server.
  -log-level trace|debug|info|warn|error [$DP_LOG_LEVEL] {logging.logLevel} (default: info)
      Least level of log lines, in upper or lower case.
  -log-json [$DP_LOG_JSON] {logging.logJSON}
      Write log lines as JSON objects.
  -config-file FILE
      A JSON file with any of this. Flags count before variables, variables before the file.
  -check-proxy-health
      Ask the running proxy's /ready; 0 or 1.
  -version
      Print version, commit and engine.
Starting and stopping
  -graceful-addr ADDRESS [$DP_GRACEFUL_ADDR] {envoy.gracefulAddr} (default: 127.0.0.1)
      Address of the server with the paths for startup and shutdown.
  -graceful-port PORT [$DP_GRACEFUL_PORT] {envoy.gracefulPort number} (default: 20300)
      Port of that server.
  -graceful-startup-path PATH [$DP_GRACEFUL_STARTUP_PATH] {envoy.gracefulStartupPath}
      (default: /graceful_startup)
      Is answered when the proxy is ready, at the latest after the time of the next flag.
  -startup-grace-period-seconds N [$DP_STARTUP_GRACE_PERIOD_SECONDS]
      {envoy.startupGracePeriodSeconds number} (default: 0)
      How long that may wait; 0 is not at all.
  -graceful-shutdown-path PATH [$DP_GRACEFUL_SHUTDOWN_PATH] {envoy.gracefulShutdownPath}
      (default: /graceful_shutdown)
      Does what SIGTERM does.
  -shutdown-grace-period-seconds N [$DP_SHUTDOWN_GRACE_PERIOD_SECONDS]
      {envoy.shutdownGracePeriodSeconds number} (default: 0)
      How long everything goes on after SIGTERM; a second SIGTERM ends it. With 0, new connections
      are accepted for 2 s, and open ones may finish within 8 s.
  -shutdown-drain-listeners [$DP_SHUTDOWN_DRAIN_LISTENERS] {envoy.shutdownDrainListenersEnabled}
      Callers from the mesh are asked to leave meanwhile.
Metrics
  -telemetry-use-central-config [$DP_TELEMETRY_USE_CENTRAL_CONFIG] {telemetry.useCentralConfig}
      (default: true)
      Serve them where envoy_prometheus_bind_addr of the proxy's configuration says.
  -telemetry-prom-scrape-path PATH [$DP_TELEMETRY_PROM_SCRAPE_PATH]
      {telemetry.prometheus.scrapePath} (default: /metrics)
      Path for that.
  -telemetry-prom-merge-port PORT [$DP_TELEMETRY_PROM_MERGE_PORT]
      {telemetry.prometheus.mergePort number} (default: 20100)
      They are at /stats/prometheus of this port, too.
  -telemetry-prom-service-metrics-url URL [$DP_TELEMETRY_PROM_SERVICE_METRICS_URL]
      {telemetry.prometheus.serviceMetricsURL}
      The application's metrics, to be joined to them.
  -telemetry-prom-ca-certs-path PATH [$DP_TELEMETRY_PROM_CA_CERTS_PATH]
      {telemetry.prometheus.caCertsPath}
      Clients must show a certificate of one of these CAs.
  -telemetry-prom-ca-certs-file FILE
      The same; consul-k8s calls it so.
  -telemetry-prom-cert-file FILE [$DP_TELEMETRY_PROM_CERT_FILE] {telemetry.prometheus.certFile}
      Certificate to serve them with. CA, certificate and key: all or none.
  -telemetry-prom-key-file FILE [$DP_TELEMETRY_PROM_KEY_FILE] {telemetry.prometheus.keyFile}
      Key of that certificate.
`),
  ...UNUSED,
];

export const SETTINGS = DATAPLANE_FLAGS.flatMap(({ flags }) => flags);
