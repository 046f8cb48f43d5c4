/**
 * The settings of `postern dataplane` about how it runs, starts, stops and is measured, and those that do
 * nothing.
 *
 * @module
 */

import type { SettingGroup } from "./setting.ts";

export const RUNNING: SettingGroup = {
  title: "Running",
  flags: [
    {
      ...{ name: "envoy-admin-bind-address", kind: "text", value: "ADDRESS" },
      ...{ env: "DP_ENVOY_ADMIN_BIND_ADDRESS", key: "envoy.adminBindAddress" },
      byDefault: "127.0.0.1",
      help: "Address of the admin server.",
    },
    {
      ...{ name: "envoy-admin-bind-port", kind: "text", value: "PORT", inFile: "number" },
      ...{ env: "DP_ENVOY_ADMIN_BIND_PORT", key: "envoy.adminBindPort", byDefault: "19000" },
      help: "Port of the admin server.",
    },
    {
      ...{ name: "envoy-ready-bind-address", kind: "text", value: "ADDRESS" },
      ...{ env: "DP_ENVOY_READY_BIND_ADDRESS", key: "envoy.readyBindAddress" },
      help: "Also answer GET /ready on this address, and on the port of the next flag.",
    },
    {
      ...{ name: "envoy-ready-bind-port", kind: "text", value: "PORT", inFile: "number" },
      ...{ env: "DP_ENVOY_READY_BIND_PORT", key: "envoy.readyBindPort", byDefault: "0" },
      help: "Port for that; 0 is none.",
    },
    {
      ...{ name: "envoy-concurrency", kind: "text", value: "N", env: "DP_ENVOY_CONCURRENCY" },
      ...{ key: "envoy.concurrency", inFile: "number", byDefault: "1" },
      help: "Threads that carry traffic.",
    },
    {
      ...{ name: "envoy-drain-time-seconds", kind: "text", value: "N", inFile: "number" },
      ...{ env: "DP_ENVOY_DRAIN_TIME", key: "envoy.drainTimeSeconds", byDefault: "30" },
      help: "How long open connections may go on after POST /drain_listeners of the admin server.",
    },
    {
      ...{ name: "log-level", kind: "text", value: "LEVEL", env: "DP_LOG_LEVEL" },
      ...{ key: "logging.logLevel", byDefault: "info" },
      help: "What to log: trace, debug, info, warn or error, in any case.",
    },
    {
      ...{ name: "log-json", kind: "switch", env: "DP_LOG_JSON", key: "logging.logJSON" },
      help: "Write log lines as JSON objects.",
    },
    {
      ...{ name: "config-file", kind: "text", value: "FILE" },
      help:
        "A JSON file with any of this. Flags count before variables, variables before the file.",
    },
    { name: "check-proxy-health", kind: "switch", help: "Ask the running proxy's /ready; 0 or 1." },
    { name: "version", kind: "switch", help: "Print version, commit and engine." },
  ],
};

export const LIFECYCLE: SettingGroup = {
  title: "Starting and stopping",
  flags: [
    {
      ...{ name: "graceful-addr", kind: "text", value: "ADDRESS", env: "DP_GRACEFUL_ADDR" },
      ...{ key: "envoy.gracefulAddr", byDefault: "127.0.0.1" },
      help: "Address of the server that is told to start and to stop.",
    },
    {
      ...{ name: "graceful-port", kind: "text", value: "PORT", env: "DP_GRACEFUL_PORT" },
      ...{ key: "envoy.gracefulPort", inFile: "number", byDefault: "20300" },
      help: "Port of that server.",
    },
    {
      ...{ name: "graceful-startup-path", kind: "text", value: "PATH" },
      ...{ env: "DP_GRACEFUL_STARTUP_PATH", key: "envoy.gracefulStartupPath" },
      byDefault: "/graceful_startup",
      help: "Is answered when the proxy is ready, at the latest after the time of the next flag.",
    },
    {
      ...{ name: "startup-grace-period-seconds", kind: "text", value: "N", inFile: "number" },
      env: "DP_STARTUP_GRACE_PERIOD_SECONDS",
      ...{ key: "envoy.startupGracePeriodSeconds", byDefault: "0" },
      help: "How long that may wait; 0 is not at all.",
    },
    {
      ...{ name: "graceful-shutdown-path", kind: "text", value: "PATH" },
      ...{ env: "DP_GRACEFUL_SHUTDOWN_PATH", key: "envoy.gracefulShutdownPath" },
      byDefault: "/graceful_shutdown",
      help: "Does what SIGTERM does.",
    },
    {
      ...{ name: "shutdown-grace-period-seconds", kind: "text", value: "N", inFile: "number" },
      env: "DP_SHUTDOWN_GRACE_PERIOD_SECONDS",
      ...{ key: "envoy.shutdownGracePeriodSeconds", byDefault: "0" },
      help: "How long everything goes on after SIGTERM; a second SIGTERM ends it. With 0, new " +
        "connections are accepted for 2 s, and open ones may finish within 8 s.",
    },
    {
      ...{ name: "shutdown-drain-listeners", kind: "switch", env: "DP_SHUTDOWN_DRAIN_LISTENERS" },
      key: "envoy.shutdownDrainListenersEnabled",
      help: "Callers from the mesh are asked to leave meanwhile.",
    },
  ],
};

export const METRICS: SettingGroup = {
  title: "Metrics",
  flags: [
    {
      ...{ name: "telemetry-use-central-config", kind: "switch", byDefault: "true" },
      ...{ env: "DP_TELEMETRY_USE_CENTRAL_CONFIG", key: "telemetry.useCentralConfig" },
      help: "Serve them where envoy_prometheus_bind_addr of the proxy's configuration says.",
    },
    {
      ...{ name: "telemetry-prom-scrape-path", kind: "text", value: "PATH" },
      env: "DP_TELEMETRY_PROM_SCRAPE_PATH",
      ...{ key: "telemetry.prometheus.scrapePath", byDefault: "/metrics" },
      help: "Path for that.",
    },
    {
      ...{ name: "telemetry-prom-merge-port", kind: "text", value: "PORT", inFile: "number" },
      env: "DP_TELEMETRY_PROM_MERGE_PORT",
      ...{ key: "telemetry.prometheus.mergePort", byDefault: "20100" },
      help: "They are at /stats/prometheus of this port, too.",
    },
    {
      ...{ name: "telemetry-prom-service-metrics-url", kind: "text", value: "URL" },
      env: "DP_TELEMETRY_PROM_SERVICE_METRICS_URL",
      key: "telemetry.prometheus.serviceMetricsURL",
      help: "The application's metrics, to be joined to them.",
    },
    {
      ...{ name: "telemetry-prom-ca-certs-path", kind: "text", value: "PATH" },
      env: "DP_TELEMETRY_PROM_CA_CERTS_PATH",
      key: "telemetry.prometheus.caCertsPath",
      help: "Clients must show a certificate of one of these CAs.",
    },
    {
      ...{ name: "telemetry-prom-ca-certs-file", kind: "text", value: "FILE" },
      help: "The same; consul-k8s calls it so.",
    },
    {
      ...{ name: "telemetry-prom-cert-file", kind: "text", value: "FILE" },
      env: "DP_TELEMETRY_PROM_CERT_FILE",
      key: "telemetry.prometheus.certFile",
      help: "Certificate to serve them with. CA, certificate and key: all or none.",
    },
    {
      ...{ name: "telemetry-prom-key-file", kind: "text", value: "FILE" },
      env: "DP_TELEMETRY_PROM_KEY_FILE",
      key: "telemetry.prometheus.keyFile",
      help: "Key of that certificate.",
    },
  ],
};

/** What is there so that command lines of consul-dataplane work. */
export const UNUSED: SettingGroup = {
  title: "Taken, with nothing behind it",
  flags: [
    {
      ...{ name: "mode", kind: "text", value: "MODE", env: "DP_MODE", key: "mode" },
      byDefault: "sidecar",
      help: "sidecar is the only one there is.",
    },
    {
      ...{ name: "xds-bind-addr", kind: "text", value: "ADDRESS", env: "DP_XDS_BIND_ADDR" },
      ...{ key: "xdsServer.bindAddress", help: "There is no xDS inside." },
    },
    {
      ...{ name: "xds-bind-port", kind: "text", value: "PORT", env: "DP_XDS_BIND_PORT" },
      ...{ key: "xdsServer.bindPort", inFile: "number", help: "The same." },
    },
    {
      ...{ name: "consul-dns-bind-addr", kind: "text", value: "ADDRESS" },
      ...{ env: "DP_CONSUL_DNS_BIND_ADDR", key: "dnsServer.bindAddress" },
      help: "The DNS proxy is not there.",
    },
    {
      ...{ name: "consul-dns-bind-port", kind: "text", value: "PORT", inFile: "number" },
      ...{ env: "DP_CONSUL_DNS_BIND_PORT", key: "dnsServer.bindPort", byDefault: "-1" },
      help: "The DNS proxy is not there.",
    },
    {
      ...{ name: "envoy-executable-path", kind: "text", value: "FILE" },
      ...{ env: "DP_ENVOY_EXECUTABLE_PATH", key: "envoy.executablePath" },
      help: "There is no Envoy.",
    },
    {
      ...{ name: "envoy-drain-strategy", kind: "text", value: "HOW" },
      ...{ env: "DP_ENVOY_DRAIN_STRATEGY", key: "envoy.drainStrategy" },
      help: "All callers are asked to leave at once.",
    },
    {
      ...{ name: "dump-envoy-config-on-exit", kind: "switch" },
      ...{ env: "DP_DUMP_ENVOY_CONFIG_ON_EXIT", key: "envoy.dumpEnvoyConfigOnExitEnabled" },
      help: "See /config_dump of the admin server.",
    },
    {
      ...{ name: "telemetry-prom-retention-time", kind: "text", value: "DURATION" },
      env: "DP_TELEMETRY_PROM_RETENTION_TIME",
      ...{ key: "telemetry.prometheus.retentionTime", inFile: "duration" },
      help: "Metrics are kept as long as what they are about.",
    },
  ],
};
