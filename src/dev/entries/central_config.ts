/** Merges proxy-defaults and service-defaults into a registration, whose values win. @module */

import {
  isEmpty,
  isObject,
  type JsonObject,
  type JsonValue,
  numberAt,
  objectAt,
  objectsAt,
  textAt,
  withoutEmpty,
} from "../json.ts";
import { meshProtocol } from "./chain_compiler.ts";
import type { FindEntry } from "./chain_targets.ts";

/** The proxy block as `/v1/agent/service/:id` shows it. */
export function mergeProxy(proxy: JsonObject, find: FindEntry): JsonObject {
  const service = textAt(proxy, "DestinationServiceName");
  const global = find("proxy-defaults", "global") ?? {};
  const defaults = find("service-defaults", service) ?? {};
  const sources = [proxy, defaults, global];
  const under = { ...objectAt(global, "Config"), ...serviceConfig(defaults) };
  return {
    ...proxy,
    Mode: firstIn(sources, "Mode"),
    Config: merged(under, objectAt(proxy, "Config")),
    TransparentProxy: {
      ...objectAt(global, "TransparentProxy"),
      ...objectAt(defaults, "TransparentProxy"),
      ...objectAt(proxy, "TransparentProxy"),
    },
    MeshGateway: firstIn(sources, "MeshGateway"),
    Expose: mergedExpose(sources.map((source) => objectAt(source, "Expose"))),
    AccessLogs: { ...objectAt(global, "AccessLogs"), ...objectAt(proxy, "AccessLogs") },
    // An agent does not show them; they are read from the entries.
    EnvoyExtensions: null,
    Upstreams: objectsAt(proxy, "Upstreams").map((upstream) =>
      mergedUpstream(upstream, { proxy, defaults, global, find })
    ),
  };
}

/** Services whose service-defaults {@link mergeProxy} reads for this proxy. */
export function mergedNames(proxy: JsonObject): readonly string[] {
  const upstreams = objectsAt(proxy, "Upstreams");
  return [
    textAt(proxy, "DestinationServiceName"),
    ...upstreams.map((upstream) => textAt(upstream, "DestinationName")),
  ];
}

interface Sources {
  readonly proxy: JsonObject;
  readonly defaults: JsonObject;
  readonly global: JsonObject;
  readonly find: FindEntry;
}

function mergedUpstream(upstream: JsonObject, sources: Sources): JsonObject {
  // Prepared queries get no central configuration at all.
  if (textAt(upstream, "DestinationType") === "prepared_query") return upstream;
  const { proxy, defaults, global, find } = sources;
  const name = textAt(upstream, "DestinationName");
  const peer = textAt(upstream, "DestinationPeer");
  const central = objectAt(defaults, "UpstreamConfig");
  const shared = objectAt(central, "Defaults");
  const own = objectsAt(central, "Overrides")
    .find((item) => textAt(item, "Name") === name && textAt(item, "Peer") === peer) ?? {};
  const callee = find("service-defaults", name) ?? {};
  const protocol = peer !== ""
    ? ""
    : textAt(own, "Protocol") || textAt(shared, "Protocol") || textAt(callee, "Protocol") ||
      meshProtocol(find);
  return {
    ...upstream,
    Config: {
      ...upstreamConfig(shared),
      ...upstreamConfig(own),
      ...protocol === "" ? {} : { protocol: protocol.toLowerCase() },
      ...objectAt(upstream, "Config"),
    },
    MeshGateway: firstIn([upstream, own, proxy, shared, defaults, global], "MeshGateway"),
  };
}

/** An item of UpstreamConfig under the keys that an upstream's opaque config has for it. */
function upstreamConfig(item: JsonObject): JsonObject {
  return withoutEmpty({
    balance_outbound_connections: textAt(item, "BalanceOutboundConnections"),
    connect_timeout_ms: Math.max(numberAt(item, "ConnectTimeoutMs"), 0),
    envoy_listener_json: textAt(item, "EnvoyListenerJSON"),
    envoy_cluster_json: textAt(item, "EnvoyClusterJSON"),
    limits: objectAt(item, "Limits"),
    passive_health_check: objectAt(item, "PassiveHealthCheck"),
  });
}

/** Numbers count where they are above 0, the size of heads wherever it is given. */
function serviceConfig(defaults: JsonObject): JsonObject {
  const positive = (key: string) => Math.max(numberAt(defaults, key), 0);
  const headKilobytes = defaults["MaxRequestHeadersKB"];
  return {
    ...withoutEmpty({
      protocol: textAt(defaults, "Protocol"),
      max_inbound_connections: positive("MaxInboundConnections"),
      local_connect_timeout_ms: positive("LocalConnectTimeoutMs"),
      local_request_timeout_ms: positive("LocalRequestTimeoutMs"),
      balance_inbound_connections: textAt(defaults, "BalanceInboundConnections"),
    }),
    ...typeof headKilobytes === "number" ? { max_request_headers_kb: headKilobytes } : {},
  };
}

/** Checks if any source exposes them; the paths of the first source that has some. */
function mergedExpose(sources: readonly JsonObject[]): JsonObject {
  const paths = sources.map((source) => objectsAt(source, "Paths"));
  const chosen = paths.find(({ length }) => length > 0) ?? [];
  return withoutEmpty({
    Checks: sources.some((source) => source["Checks"] === true),
    Paths: chosen.map((path) => ({ ...withoutEmpty(path), ParsedFromCheck: false })),
  });
}

/** Maps inside of maps are merged; lists and everything else of `over` replace what is `under`. */
function merged(under: JsonObject, over: JsonObject): JsonObject {
  const entries = Object.entries(over).map(([key, value]): [string, JsonValue] => {
    const below = Object.hasOwn(under, key) ? under[key] : undefined;
    return [key, isObject(below) && isObject(value) ? merged(below, value) : value];
  });
  return { ...under, ...Object.fromEntries(entries) };
}

/** The value of the first source that has one. */
function firstIn(sources: readonly JsonObject[], key: string): JsonValue {
  return sources.map((source) => source[key] ?? null).find((value) => !isEmpty(value)) ?? null;
}
