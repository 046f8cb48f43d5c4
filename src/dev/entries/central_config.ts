/**
 * What the agent merges into a proxy's registration: proxy-defaults, the service-defaults of its
 * service, and per upstream the latter's UpstreamConfig. A registered value always wins.
 *
 * @module
 */

import { meshProtocol } from "./chain_compiler.ts";
import type { FindEntry } from "./config_entries.ts";
import { mergedExpose } from "./exposed.ts";

import { isObject, type Json, type JsonObject } from "../http/decode.ts";
import { isEmpty } from "../catalog/records.ts";
import { numberAt, objectAt, textAt } from "../http/fields.ts";

/**
 * The proxy block as `/v1/agent/service/:id` shows it. `explicitNulls`: unset limits are written as
 * null, as a client agent does, which gets them from a server; a server itself leaves them out.
 */
export function mergeProxy(
  proxy: JsonObject,
  find: FindEntry,
  explicitNulls: boolean,
): JsonObject {
  const service = textAt(proxy, "DestinationServiceName");
  const global = find("proxy-defaults", "global") ?? {};
  const defaults = find("service-defaults", service) ?? {};
  const config = deepMerged(
    { ...objectAt(global, "Config"), ...serviceConfig(defaults) },
    objectAt(proxy, "Config"),
  );
  const upstreams = Array.isArray(proxy["Upstreams"]) ? proxy["Upstreams"] as readonly Json[] : [];
  return {
    ...proxy,
    Mode: firstFull(proxy["Mode"], defaults["Mode"], global["Mode"]) ?? "",
    ...isEmpty(config) ? {} : { Config: sorted(config) },
    TransparentProxy: {
      ...objectAt(global, "TransparentProxy"),
      ...objectAt(defaults, "TransparentProxy"),
      ...objectAt(proxy, "TransparentProxy"),
    },
    MeshGateway: firstFull(proxy["MeshGateway"], defaults["MeshGateway"], global["MeshGateway"]) ??
      {},
    Expose: mergedExpose(...[proxy, defaults, global].map((from) => objectAt(from, "Expose"))),
    // Those of the config entries alone; an agent shows none at all.
    EnvoyExtensions: [global, defaults].flatMap((from) => {
      const extensions = from["EnvoyExtensions"];
      return Array.isArray(extensions) ? extensions as readonly Json[] : [];
    }),
    AccessLogs: { ...objectAt(global, "AccessLogs"), ...objectAt(proxy, "AccessLogs") },
    Upstreams: upstreams.map((upstream) =>
      isObject(upstream)
        ? mergeUpstream(upstream, { proxy, defaults, global, find, explicitNulls })
        : upstream
    ),
  };
}

/** Maps inside of maps are merged as well; lists and everything else of `over` win whole. */
function deepMerged(under: JsonObject, over: JsonObject): JsonObject {
  const merged = Object.entries(over).map(([key, value]): [string, Json] => {
    const below = Object.hasOwn(under, key) ? under[key] : undefined;
    return [key, isObject(below) && isObject(value) ? deepMerged(below, value) : value];
  });
  return { ...under, ...Object.fromEntries(merged) };
}

/** Names whose service-defaults the merge of this proxy reads, for whoever watches it. */
export function mergedNames(proxy: JsonObject): readonly string[] {
  const upstreams = Array.isArray(proxy["Upstreams"]) ? proxy["Upstreams"] as readonly Json[] : [];
  return [
    textAt(proxy, "DestinationServiceName"),
    ...upstreams.filter(isObject).map((upstream) => textAt(upstream, "DestinationName")),
  ];
}

interface Sources {
  readonly proxy: JsonObject;
  readonly defaults: JsonObject;
  readonly global: JsonObject;
  readonly find: FindEntry;
  readonly explicitNulls: boolean;
}

const NO_LIMITS = { MaxConcurrentRequests: null, MaxConnections: null, MaxPendingRequests: null };
const NO_PASSIVE_CHECK = {
  BaseEjectionTime: null,
  EnforcingConsecutive5xx: null,
  MaxEjectionPercent: null,
};

function mergeUpstream(upstream: JsonObject, sources: Sources): JsonObject {
  // Prepared queries get no central configuration at all.
  if (textAt(upstream, "DestinationType") === "prepared_query") return upstream;
  const { proxy, defaults, global, find } = sources;
  const name = textAt(upstream, "DestinationName");
  const peer = textAt(upstream, "DestinationPeer");
  const central = objectAt(defaults, "UpstreamConfig");
  const shared = objectAt(central, "Defaults");
  const overrides = Array.isArray(central["Overrides"])
    ? central["Overrides"] as readonly Json[]
    : [];
  const own = overrides.filter(isObject)
    .find((item) => textAt(item, "Name") === name && textAt(item, "Peer") === peer) ?? {};
  const protocol = peer !== "" ? "" : firstText(
    textAt(own, "Protocol"),
    textAt(shared, "Protocol"),
    textAt(find("service-defaults", name) ?? {}, "Protocol"),
    meshProtocol(find),
  );
  const config = {
    ...upstreamConfig(shared, sources.explicitNulls),
    ...upstreamConfig(own, sources.explicitNulls),
    ...protocol === "" ? {} : { protocol },
    ...objectAt(upstream, "Config"),
  };
  return {
    ...upstream,
    ...isEmpty(config) ? {} : { Config: sorted(config) },
    MeshGateway: firstFull(
      upstream["MeshGateway"],
      own["MeshGateway"],
      proxy["MeshGateway"],
      shared["MeshGateway"],
      defaults["MeshGateway"],
      global["MeshGateway"],
    ) ?? {},
  };
}

/** The keys of an UpstreamConfig item as they arrive in an upstream's opaque config. */
function upstreamConfig(item: JsonObject, explicitNulls: boolean): JsonObject {
  const result: Record<string, Json> = {};
  const balance = textAt(item, "BalanceOutboundConnections");
  if (balance !== "") result["balance_outbound_connections"] = balance;
  const timeout = numberAt(item, "ConnectTimeoutMs");
  if (timeout > 0) result["connect_timeout_ms"] = timeout;
  const listener = textAt(item, "EnvoyListenerJSON");
  if (listener !== "") result["envoy_listener_json"] = listener;
  const cluster = textAt(item, "EnvoyClusterJSON");
  if (cluster !== "") result["envoy_cluster_json"] = cluster;
  const limits = item["Limits"];
  if (isObject(limits)) {
    result["limits"] = sorted({ ...explicitNulls ? NO_LIMITS : {}, ...limits });
  }
  const passive = item["PassiveHealthCheck"];
  if (isObject(passive)) {
    result["passive_health_check"] = sorted({
      ...explicitNulls ? NO_PASSIVE_CHECK : {},
      ...passive,
    });
  }
  return result;
}

function serviceConfig(defaults: JsonObject): JsonObject {
  const result: Record<string, Json> = {};
  const take = (from: string, to: string) => {
    const value = defaults[from] ?? null;
    if (!isEmpty(value) && !(typeof value === "number" && value < 0)) result[to] = value;
  };
  take("Protocol", "protocol");
  take("MaxInboundConnections", "max_inbound_connections");
  take("LocalConnectTimeoutMs", "local_connect_timeout_ms");
  take("LocalRequestTimeoutMs", "local_request_timeout_ms");
  take("BalanceInboundConnections", "balance_inbound_connections");
  const kilobytes = defaults["MaxRequestHeadersKB"];
  if (typeof kilobytes === "number") result["max_request_headers_kb"] = kilobytes;
  return result;
}

function firstFull(...values: readonly (Json | undefined)[]): Json | undefined {
  return values.find((value) => value !== undefined && !isEmpty(value));
}

function firstText(...values: readonly string[]): string {
  return values.find((value) => value !== "") ?? "";
}

/** Go writes the keys of a map in order. */
function sorted(object: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(object).sort(([a], [b]) => a < b ? -1 : 1));
}
