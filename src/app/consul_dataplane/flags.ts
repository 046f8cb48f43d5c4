/**
 * Every setting of `postern dataplane`, with its flag, its variable, its key in the configuration file and
 * its help. All but `-http-port` are consul-dataplane's, so that what starts that one starts this.
 *
 * @module
 */

import { LIFECYCLE, METRICS, RUNNING, UNUSED } from "./running_flags.ts";
import type { Setting, SettingGroup } from "./setting.ts";

const CONSUL: SettingGroup = {
  title: "Consul's servers",
  flags: [
    {
      ...{ name: "addresses", kind: "text", value: "ADDRESS", env: "DP_CONSUL_ADDRESSES" },
      key: "consul.addresses",
      help: "An address, a DNS name (all addresses of it), or exec=COMMAND that prints addresses.",
    },
    {
      ...{ name: "grpc-port", kind: "text", value: "PORT", env: "DP_CONSUL_GRPC_PORT" },
      ...{ key: "consul.grpcPort", inFile: "number", byDefault: "8502" },
      help: "Port of the servers for gRPC.",
    },
    {
      ...{ name: "http-port", kind: "text", value: "PORT", env: "POSTERN_HTTP_PORT" },
      byDefault: "8501, with -tls-disabled 8500",
      help: "Port of the servers for the HTTP API, which consul-dataplane does without: what it " +
        "has over xDS, Postern reads there.",
    },
    {
      ...{ name: "server-watch-disabled", kind: "switch", env: "DP_SERVER_WATCH_DISABLED" },
      key: "consul.serverWatchDisabled",
      help: "Use only what -addresses gives, as behind a load balancer.",
    },
    {
      ...{ name: "ca-certs", kind: "text", value: "PATH", env: "DP_CA_CERTS" },
      ...{ key: "consul.tls.caCertsPath", byDefault: "what this system trusts" },
      help: "CA certificates that may have signed the servers', a file or a directory.",
    },
    {
      ...{ name: "tls-cert", kind: "text", value: "FILE", env: "DP_TLS_CERT" },
      key: "consul.tls.certFile",
      help: "Certificate to show to the servers.",
    },
    {
      ...{ name: "tls-key", kind: "text", value: "FILE", env: "DP_TLS_KEY" },
      key: "consul.tls.keyFile",
      help: "Key of that certificate.",
    },
    {
      ...{ name: "tls-server-name", kind: "text", value: "NAME", env: "DP_TLS_SERVER_NAME" },
      ...{ key: "consul.tls.serverName", byDefault: "-addresses" },
      // In files that consul-ecs writes.
      otherKey: "consul.tls.tlsServerName",
      help: "Name that the servers' certificates must have.",
    },
    {
      ...{ name: "tls-disabled", kind: "switch", env: "DP_TLS_DISABLED" },
      key: "consul.tls.disabled",
      help: "Talk to the servers in plain text; who reads it has the token.",
    },
    {
      ...{ name: "tls-insecure-skip-verify", kind: "switch", env: "DP_TLS_INSECURE_SKIP_VERIFY" },
      key: "consul.tls.insecureSkipVerify",
      help: "Do not check the servers' certificates; who answers gets the token.",
    },
  ],
};

const CREDENTIALS: SettingGroup = {
  title: "The ACL token",
  flags: [
    {
      ...{ name: "credential-type", kind: "text", value: "TYPE", env: "DP_CREDENTIAL_TYPE" },
      ...{ key: "consul.credentials.type", byDefault: "none" },
      help: "static, with -static-token, or login, with the flags of that name.",
    },
    {
      ...{ name: "static-token", kind: "text", value: "TOKEN", env: "DP_CREDENTIAL_STATIC_TOKEN" },
      key: "consul.credentials.static.token",
      help: "ACL token. Everyone on this machine can read it here.",
    },
    {
      ...{ name: "login-auth-method", kind: "text", value: "NAME" },
      ...{ env: "DP_CREDENTIAL_LOGIN_AUTH_METHOD", key: "consul.credentials.login.authMethod" },
      help: "Log in with this auth method for a token, and log out at the end.",
    },
    {
      ...{ name: "login-bearer-token-path", kind: "text", value: "FILE" },
      env: "DP_CREDENTIAL_LOGIN_BEARER_TOKEN_PATH",
      key: "consul.credentials.login.bearerTokenPath",
      help: "File with the bearer token to log in with; read for each login.",
    },
    {
      ...{ name: "login-bearer-token", kind: "text", value: "TOKEN" },
      ...{ env: "DP_CREDENTIAL_LOGIN_BEARER_TOKEN", key: "consul.credentials.login.bearerToken" },
      help: "The bearer token itself. Everyone on this machine can read it here.",
    },
    {
      ...{ name: "login-meta", kind: "list", value: "KEY=VALUE", inFile: "map" },
      key: "consul.credentials.login.meta",
      help: "What the token's description says. May be repeated. " +
        "[$DP_CREDENTIAL_LOGIN_META1 to 9]",
    },
    {
      ...{ name: "login-datacenter", kind: "text", value: "NAME" },
      ...{ env: "DP_CREDENTIAL_LOGIN_DATACENTER", key: "consul.credentials.login.datacenter" },
      help: "Datacenter to log in to.",
    },
    {
      ...{ name: "login-namespace", kind: "text", value: "NAME" },
      ...{ env: "DP_CREDENTIAL_LOGIN_NAMESPACE", key: "consul.credentials.login.namespace" },
      help: "Namespace of the auth method (Consul Enterprise).",
    },
    {
      ...{ name: "login-partition", kind: "text", value: "NAME" },
      ...{ env: "DP_CREDENTIAL_LOGIN_PARTITION", key: "consul.credentials.login.partition" },
      help: "Partition of the auth method (Consul Enterprise).",
    },
  ],
};

const PROXY: SettingGroup = {
  title: "The proxy",
  flags: [
    {
      ...{ name: "proxy-id", kind: "text", value: "ID", env: "DP_PROXY_ID", key: "proxy.id" },
      help: "The registered proxy to run.",
    },
    {
      ...{ name: "proxy-id-path", kind: "text", value: "FILE", env: "DP_PROXY_ID_PATH" },
      key: "proxy.idPath",
      help: "File with that id.",
    },
    {
      ...{ name: "proxy-node-name", kind: "text", value: "NAME", env: "DP_PROXY_NODE_NAME" },
      key: "proxy.nodeName",
      help: "Node in the catalog that the proxy is registered on.",
    },
    {
      ...{ name: "proxy-node-id", kind: "text", value: "ID", env: "DP_PROXY_NODE_ID" },
      key: "proxy.nodeID",
      help: "The same by its id. Counts before -proxy-node-name.",
    },
    {
      ...{ name: "proxy-namespace", kind: "text", value: "NAME", env: "DP_PROXY_NAMESPACE" },
      key: "proxy.namespace",
      help: "Namespace of the proxy (Consul Enterprise).",
    },
    {
      ...{ name: "proxy-partition", kind: "text", value: "NAME", env: "DP_PROXY_PARTITION" },
      key: "proxy.partition",
      help: "Partition of the proxy (Consul Enterprise).",
    },
    {
      ...{ name: "proxy-service-id", kind: "text", value: "ID", env: "DP_PROXY_SERVICE_ID" },
      key: "service.serviceID",
      help: "Old name of -proxy-id. Old names count only where no new one is given.",
    },
    {
      ...{ name: "proxy-service-id-path", kind: "text", value: "FILE" },
      ...{ env: "DP_PROXY_SERVICE_ID_PATH", key: "service.serviceIDPath" },
      help: "Old name of -proxy-id-path.",
    },
    {
      ...{ name: "service-node-name", kind: "text", value: "NAME", env: "DP_SERVICE_NODE_NAME" },
      key: "service.nodeName",
      help: "Old name of -proxy-node-name.",
    },
    {
      ...{ name: "service-node-id", kind: "text", value: "ID", env: "DP_SERVICE_NODE_ID" },
      key: "service.nodeID",
      help: "Old name of -proxy-node-id.",
    },
    {
      ...{ name: "service-namespace", kind: "text", value: "NAME", env: "DP_SERVICE_NAMESPACE" },
      key: "service.namespace",
      help: "Old name of -proxy-namespace.",
    },
    {
      ...{ name: "service-partition", kind: "text", value: "NAME", env: "DP_SERVICE_PARTITION" },
      key: "service.partition",
      help: "Old name of -proxy-partition.",
    },
  ],
};

export const DATAPLANE_FLAGS: readonly SettingGroup[] = [
  CONSUL,
  CREDENTIALS,
  PROXY,
  RUNNING,
  LIFECYCLE,
  METRICS,
  UNUSED,
];

export const SETTINGS: readonly Setting[] = DATAPLANE_FLAGS.flatMap(({ flags }) => flags);
