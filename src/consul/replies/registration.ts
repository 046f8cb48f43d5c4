/**
 * The proxy's own registration, merged with the central configuration. Beside an agent it is waited on by
 * content hash; the hash also moves without a change (the order of upstreams, the virtual address), so
 * lists are sorted here and compared as values.
 *
 * @module
 */

import * as v from "valibot";
import { formatDurationMs, ProxyError } from "../../base/mod.ts";
import { defined } from "../../base/schema.ts";
import type { Client } from "../http/client.ts";
import type { Registration } from "../model/values.ts";
import type { PollQuestion } from "../watch/blocking_query.ts";
import {
  CLUSTERS_KEY,
  LISTENER_TRACING_KEY,
  readEnvoyTracing,
  TRACING_KEY,
} from "./envoy_tracing.ts";
import { namedKeys } from "./named_keys.ts";
import { ProxyConfig } from "./proxy_config.ts";
import { answerOf } from "./questions.ts";
import {
  count,
  flag,
  list,
  mode,
  object,
  port,
  readReply,
  renamed,
  replyInvalid,
  text,
} from "./schema.ts";
import { toUpstreams, UpstreamJson } from "./upstream.ts";

const LOCAL_CONNECT_TIMEOUT_MS = 5_000;
const HANDSHAKE_TIMEOUT_MS = 10_000;
const SHOWN_DENIALS = ["off", "code", "rule"] as const;
/** Envoy's limit. */
const HEAD_LIMIT_KB = 8_192;

const RegistrationReply = object({
  Kind: text,
  ID: text,
  Service: text,
  Address: text,
  Port: port,
  Datacenter: text,
  Namespace: text,
  Partition: text,
  ContentHash: text,
  Proxy: v.nullish(object({
    DestinationServiceName: text,
    DestinationServiceID: text,
    LocalServiceAddress: text,
    LocalServicePort: port,
    LocalServiceSocketPath: text,
    Mode: text,
    Config: v.nullish(v.unknown()),
    MeshGateway: mode,
    Expose: v.nullish(object({
      Checks: flag,
      Paths: list(renamed({
        listenerPort: ["ListenerPort", count],
        path: ["Path", text],
        localPort: ["LocalPathPort", count],
        protocol: ["Protocol", text],
      })),
    })),
    AccessLogs: v.nullish(renamed({
      isEnabled: ["Enabled", flag],
      disableListenerLogs: ["DisableListenerLogs", flag],
      type: ["Type", text],
      path: ["Path", text],
      jsonFormat: ["JSONFormat", text],
      textFormat: ["TextFormat", text],
    })),
    Upstreams: list(UpstreamJson),
  })),
});
type Reply = v.InferOutput<typeof RegistrationReply>;
type ProxyJson = NonNullable<Reply["Proxy"]>;

export function readRegistration(json: unknown, proxyId: string): Registration {
  const what = `proxy ${JSON.stringify(proxyId)}`;
  const reply = readReply(RegistrationReply, json, what);
  const proxy = reply.Proxy;
  const isIngress = reply.Kind === "ingress-gateway";
  if (!isIngress && reply.Kind !== "connect-proxy" || !proxy) {
    throw notAProxy(proxyId, reply.Kind);
  }
  const service = isIngress ? reply.Service : proxy.DestinationServiceName;
  if (!service) throw replyInvalid(what, "it names no destination service");

  const warnings: string[] = [];
  const config = new ProxyConfig(proxy.Config, { where: "The proxy's config", warnings });
  const headKb = config.integer("max_request_headers_kb", 0);
  const meshGatewayMode = proxy.MeshGateway;
  const clusters = extraClusters(config, warnings);
  const { choice: tracing, cluster: collector } = readEnvoyTracing({
    tracing: config.raw(TRACING_KEY),
    listener: config.raw(LISTENER_TRACING_KEY),
    clusters,
  }, warnings);
  const others = clusters.filter((cluster) => nameOf(cluster) !== collector || collector === "");
  if (!isIngress) {
    for (const cluster of others) {
      const name = JSON.stringify(nameOf(cluster).slice(0, 60));
      warnings.push(`The cluster ${name} of ${CLUSTERS_KEY} is not used by a sidecar`);
    }
  }
  config.nameUnfollowed(isIngress ? "gateway" : "proxy");
  warnings.push(...namedKeys(json, { place: "registration", where: "The proxy's registration" }));
  return defined({
    id: reply.ID,
    service,
    proxyService: reply.Service,
    datacenter: reply.Datacenter,
    namespace: reply.Namespace || "default",
    partition: reply.Partition || "default",
    hasTenancy: reply.Namespace || reply.Partition ? true as const : undefined,
    bind: bindOf(reply, config),
    local: localOf(proxy),
    // The mode that central configuration gives to all proxies is meant for sidecars.
    mode: isIngress ? "" : proxy.Mode,
    protocol: config.text("protocol") || "tcp",
    localConnectTimeoutMs: config.integer("local_connect_timeout_ms", 1) ??
      LOCAL_CONNECT_TIMEOUT_MS,
    localRequestTimeoutMs: config.integer("local_request_timeout_ms", 0),
    localIdleTimeoutMs: config.integer("local_idle_timeout_ms", 0),
    headBytes: headKb ? Math.min(headKb, HEAD_LIMIT_KB) * 1_024 : undefined,
    showDenials: isIngress ? undefined : config.choice("postern_show_denials", SHOWN_DENIALS, {
      true: "rule",
      false: "off",
    }),
    handshakeTimeoutMs: config.integer("handshake_timeout_ms", 1) ?? HANDSHAKE_TIMEOUT_MS,
    tls: config.raw("postern_tls"),
    plugins: isIngress ? undefined : config.raw("postern_plugins"),
    upstreamPlugins: isIngress ? undefined : config.raw("postern_upstream_plugins"),
    exposed: !isIngress && proxy.Expose?.Paths.length ? proxy.Expose.Paths : undefined,
    exposesChecksOf: !isIngress && proxy.Expose?.Checks
      ? proxy.DestinationServiceID || service
      : undefined,
    ingress: isIngress ? { clusters: others, meshGatewayMode, edges: [], refused: [] } : undefined,
    maxInboundConnections: config.integer("max_inbound_connections", 0) ?? 0,
    accessLogs: accessLogsOf(proxy),
    accessLogSampling: config.raw("postern_access_log_sampling"),
    metrics: metricsOf(config),
    tracing,
    upstreams: isIngress ? [] : toUpstreams(proxy.Upstreams, { meshGatewayMode, warnings }),
    warnings,
  });
}

/** The registration's own and those of its upstreams. */
export function warningsOf({ warnings, upstreams }: Registration): readonly string[] {
  return [...warnings, ...upstreams.flatMap(({ warnings = [] }) => warnings)];
}

function bindOf({ Kind, Address, Port }: Reply, config: ProxyConfig): Registration["bind"] {
  const host = config.text("bind_address") || Address || "0.0.0.0";
  const bindPort = config.integer("bind_port", 0) ?? 0;
  // A gateway's own port is for its callers; the listeners are in its config entry.
  if (Kind === "ingress-gateway") return { kind: "tcp", host, port: 0 };
  return { kind: "tcp", host, port: bindPort > 0 && bindPort < 65_536 ? bindPort : Port };
}

function localOf(proxy: ProxyJson): Registration["local"] {
  const { LocalServiceSocketPath: path, LocalServiceAddress: host, LocalServicePort } = proxy;
  if (path) return { kind: "unix", path };
  return { kind: "tcp", host: host || "127.0.0.1", port: LocalServicePort };
}

function accessLogsOf({ AccessLogs }: ProxyJson): Registration["accessLogs"] {
  if (!AccessLogs?.isEnabled) return undefined;
  const { isEnabled: _, ...logs } = AccessLogs;
  return logs;
}

function metricsOf(config: ProxyConfig): Registration["metrics"] {
  const metrics = {
    prometheusBindAddr: config.text("envoy_prometheus_bind_addr"),
    statsBindAddr: config.text("envoy_stats_bind_addr"),
    statsdUrl: config.text("envoy_statsd_url"),
    dogstatsdUrl: config.text("envoy_dogstatsd_url"),
    flushInterval: config.text("envoy_stats_flush_interval"),
    tags: config.texts("envoy_stats_tags"),
  };
  return Object.values(metrics).some((value) => value.length > 0) ? metrics : undefined;
}

/** Objects with commas between them, with or without a list's brackets. */
function extraClusters(config: ProxyConfig, warnings: string[]): readonly unknown[] {
  const written = config.raw(CLUSTERS_KEY);
  if (written === undefined || written === "") return [];
  try {
    const text = typeof written === "string" ? written.trim() : "no text";
    const list: unknown = JSON.parse(text.startsWith("[") ? text : `[${text}]`);
    if (Array.isArray(list)) return list;
  } catch {
    // Named below.
  }
  warnings.push(
    `The proxy's config has ${CLUSTERS_KEY}, which is ignored: it is no list of clusters in JSON`,
  );
  return [];
}

function nameOf(cluster: unknown): string {
  if (typeof cluster !== "object" || cluster === null || !("name" in cluster)) return "";
  return typeof cluster.name === "string" ? cluster.name : "";
}

function notAProxy(proxyId: string, kind: string): ProxyError {
  const id = JSON.stringify(proxyId);
  return kind === ""
    ? new ProxyError("usage", `Cannot run ${id}: it is a service, not a proxy; use -sidecar-for`)
    : new ProxyError("unsupported", `Cannot run ${id}: proxies of kind ${kind} are not supported`);
}

export function registrationQuestion(client: Client, proxyId: string): PollQuestion<Registration> {
  return {
    name: `registration ${proxyId}`,
    resource: "registration",
    isCritical: true,
    cursor: "hash",
    async poll(request) {
      const { cursor, waitMs, timeoutMs, signal, last } = request;
      const reply = await client.call({
        resource: "registration",
        what: `read the registration of ${JSON.stringify(proxyId)}`,
        path: `/v1/agent/service/${encodeURIComponent(proxyId)}`,
        query: cursor === undefined ? {} : { hash: cursor, wait: formatDurationMs(waitMs) },
        timeoutMs,
        signal,
        lastDigest: last?.digest ?? "",
      });
      const answer = answerOf(reply, request, (json) => readRegistration(json, proxyId));
      return { ...answer, cursor: reply.contentHash };
    },
  };
}
