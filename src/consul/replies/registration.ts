/**
 * The proxy's own registration, as the agent merged it with the central configuration. Waited on by
 * content hash; the hash also moves without a change (the order of upstreams, the virtual address), so
 * lists are sorted here and compared as values.
 *
 * @module
 */

import * as v from "valibot";
import { formatDurationMs, ProxyError } from "../../base/mod.ts";
import type { PollQuestion } from "../watch/blocking_query.ts";
import type { Client } from "../http/client.ts";
import { answerOf } from "../http/query.ts";
import { namedKeys } from "./config_keys.ts";
import { ProxyConfig } from "./proxy_config.ts";
import { count, flag, list, object, port, readReply, replyInvalid, text } from "./schema.ts";
import type { Registration } from "../types.ts";
import { given, toUpstreams, UpstreamJson } from "./upstream.ts";

const LOCAL_CONNECT_TIMEOUT_MS = 5_000;
const HANDSHAKE_TIMEOUT_MS = 10_000;

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
    MeshGateway: v.nullish(object({ Mode: text })),
    Expose: v.nullish(object({
      Checks: flag,
      Paths: list(object({
        ListenerPort: count,
        Path: text,
        LocalPathPort: count,
        Protocol: text,
      })),
    })),
    AccessLogs: v.nullish(object({
      Enabled: flag,
      DisableListenerLogs: flag,
      Type: text,
      Path: text,
      JSONFormat: text,
      TextFormat: text,
    })),
    Upstreams: list(UpstreamJson),
  })),
});

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
  const meshGatewayMode = proxy.MeshGateway?.Mode ?? "";
  const clusters = isIngress ? extraClusters(config, warnings) : undefined;
  config.nameUnfollowed(isIngress ? "gateway" : "proxy");
  warnings.push(
    ...namedKeys(json, { place: "registration", where: "The proxy's registration" }),
  );
  const bindPort = config.integer("bind_port", 0);
  const tls = config.raw("postern_tls");
  const plugins = isIngress ? undefined : config.raw("postern_plugins");
  return {
    id: reply.ID,
    service,
    proxyService: reply.Service,
    datacenter: reply.Datacenter,
    namespace: reply.Namespace || "default",
    partition: reply.Partition || "default",
    ...(reply.Namespace || reply.Partition ? { hasTenancy: true } : {}),
    bind: {
      kind: "tcp",
      host: config.text("bind_address") || reply.Address || "0.0.0.0",
      port: isIngress
        // Its port is where others look for it; what it listens for is in its config entry.
        ? 0
        : bindPort !== undefined && bindPort > 0 && bindPort < 65_536
        ? bindPort
        : reply.Port,
    },
    local: proxy.LocalServiceSocketPath ? { kind: "unix", path: proxy.LocalServiceSocketPath } : {
      kind: "tcp",
      host: proxy.LocalServiceAddress || "127.0.0.1",
      port: proxy.LocalServicePort,
    },
    // What central configuration gives to all proxies means sidecars.
    mode: isIngress ? "" : proxy.Mode,
    protocol: config.text("protocol") || "tcp",
    localConnectTimeoutMs: config.integer("local_connect_timeout_ms", 1) ??
      LOCAL_CONNECT_TIMEOUT_MS,
    ...given("localRequestTimeoutMs", config.integer("local_request_timeout_ms", 0)),
    ...given("localIdleTimeoutMs", config.integer("local_idle_timeout_ms", 0)),
    ...headBytesOf(config),
    ...(!isIngress && config.flag("postern_show_denials") ? { showDenials: true } : {}),
    handshakeTimeoutMs: config.integer("handshake_timeout_ms", 1) ?? HANDSHAKE_TIMEOUT_MS,
    ...(tls !== undefined && { tls }),
    ...(plugins !== undefined && { plugins }),
    ...(!isIngress && exposedOf(proxy.Expose)),
    ...(!isIngress && proxy.Expose?.Checks &&
      { exposesChecksOf: proxy.DestinationServiceID || service }),
    ...(isIngress &&
      { ingress: { clusters: clusters ?? [], meshGatewayMode, edges: [], refused: [] } }),
    maxInboundConnections: config.integer("max_inbound_connections", 0) ?? 0,
    ...(proxy.AccessLogs?.Enabled && {
      accessLogs: {
        disableListenerLogs: proxy.AccessLogs.DisableListenerLogs,
        type: proxy.AccessLogs.Type,
        path: proxy.AccessLogs.Path,
        jsonFormat: proxy.AccessLogs.JSONFormat,
        textFormat: proxy.AccessLogs.TextFormat,
      },
    }),
    ...metricsOf(config),
    upstreams: isIngress ? [] : toUpstreams(proxy.Upstreams ?? [], { meshGatewayMode, warnings }),
    warnings,
  };
}

/** Its own and those of its upstreams. */
export function warningsOf({ warnings, upstreams }: Registration): readonly string[] {
  return [...warnings, ...upstreams.flatMap(({ warnings = [] }) => warnings)];
}

function metricsOf(config: ProxyConfig): Pick<Registration, "metrics"> {
  const metrics = {
    prometheusBindAddr: config.text("envoy_prometheus_bind_addr"),
    statsBindAddr: config.text("envoy_stats_bind_addr"),
    statsdUrl: config.text("envoy_statsd_url"),
    dogstatsdUrl: config.text("envoy_dogstatsd_url"),
    flushInterval: config.text("envoy_stats_flush_interval"),
    tags: config.texts("envoy_stats_tags"),
  };
  return Object.values(metrics).some((value) => value.length > 0) ? { metrics } : {};
}

type Expose = NonNullable<v.InferOutput<typeof RegistrationReply>["Proxy"]>["Expose"];

function exposedOf(expose: Expose): Pick<Registration, "exposed"> {
  const paths = expose?.Paths ?? [];
  if (paths.length === 0) return {};
  return {
    exposed: paths.map(({ ListenerPort, Path, LocalPathPort, Protocol }) => ({
      listenerPort: ListenerPort ?? 0,
      path: Path,
      localPort: LocalPathPort ?? 0,
      protocol: Protocol,
    })),
  };
}

/** Envoy takes no more. */
const HEAD_LIMIT_KB = 8_192;

function headBytesOf(config: ProxyConfig): Pick<Registration, "headBytes"> {
  const kb = config.integer("max_request_headers_kb", 0);
  return kb ? { headBytes: Math.min(kb, HEAD_LIMIT_KB) * 1_024 } : {};
}

const EXTRA_CLUSTERS = "envoy_extra_static_clusters_json";

/** Objects with commas between them, with or without a list's brackets. */
function extraClusters(config: ProxyConfig, warnings: string[]): readonly unknown[] | undefined {
  const written = config.raw(EXTRA_CLUSTERS);
  if (written === undefined || written === "") return undefined;
  try {
    const text = typeof written === "string" ? written.trim() : "no text";
    const list: unknown = JSON.parse(text.startsWith("[") ? text : `[${text}]`);
    if (Array.isArray(list)) return list;
  } catch {
    // Named below.
  }
  warnings.push(
    `The proxy's config has ${EXTRA_CLUSTERS}, which is ignored: it is no list of clusters in JSON`,
  );
  return undefined;
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
    critical: true,
    dropped: false,
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
