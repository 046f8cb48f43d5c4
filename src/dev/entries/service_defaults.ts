/**
 * The `service-defaults` config entry: what may be written, and the form in which it is kept.
 *
 * @module
 */

import { dropEmpty } from "../catalog/records.ts";
import { isObject, type Json, type JsonObject } from "../http/decode.ts";
import { numberAt, objectAt, textAt } from "../http/fields.ts";
import { withNs } from "../http/go_duration.ts";
import { Refusal } from "../http/refusal.ts";
import { extensionFaults } from "./envoy_extensions.ts";
import { normalExpose } from "./exposed.ts";
import { multiError } from "./multi_error.ts";

const PROTOCOLS = ["", "tcp", "http", "http2", "grpc"];
const BALANCES = ["", "exact_balance"];

export function normalServiceDefaults(entry: JsonObject): JsonObject {
  const protocol = textAt(entry, "Protocol").toLowerCase();
  const upstreams = entry["UpstreamConfig"];
  const normalUpstreams = isObject(upstreams) && normalUpstreamConfig(upstreams);
  const faults = [
    ...balanceFault(entry, "BalanceInboundConnections", "balance_inbound_connections"),
    ...PROTOCOLS.includes(protocol) ? [] : [`invalid value for protocol: ${protocol}`],
    ...normalUpstreams ? upstreamFaults(normalUpstreams) : [],
    ...extensionFaults(entry),
  ];
  if (faults.length > 0) throw new Refusal(500, multiError(faults));
  if (Object.keys(objectAt(entry, "RateLimits")).length > 0) {
    const fault = "invalid rate_limits config. Rate limiting is a consul enterprise feature";
    throw new Refusal(500, multiError([fault]));
  }
  return dropEmpty({
    Kind: "service-defaults",
    Name: textAt(entry, "Name"),
    TransparentProxy: {},
    MeshGateway: {},
    ...entry,
    Protocol: protocol,
    Expose: normalExpose(objectAt(entry, "Expose")),
    ...normalUpstreams ? { UpstreamConfig: normalUpstreams } : {},
  }, ["MaxInboundConnections", "LocalConnectTimeoutMs", "LocalRequestTimeoutMs"]);
}

function normalUpstreamConfig(config: JsonObject): JsonObject {
  const { Overrides: overrides, Defaults: defaults } = config;
  return {
    ...Array.isArray(overrides)
      ? { Overrides: (overrides as readonly Json[]).filter(isObject).map(normalUpstream) }
      : {},
    ...isObject(defaults) ? { Defaults: normalUpstream(defaults) } : {},
  };
}

/** Any protocol is taken here: it is what the upstream says that counts. */
function normalUpstream(item: JsonObject): JsonObject {
  const passive = item["PassiveHealthCheck"];
  return dropEmpty({
    Peer: "",
    ...item,
    Protocol: textAt(item, "Protocol").toLowerCase(),
    ConnectTimeoutMs: Math.max(0, numberAt(item, "ConnectTimeoutMs")),
    ...isObject(passive)
      ? { PassiveHealthCheck: withNs(passive, ["Interval", "BaseEjectionTime"]) }
      : {},
    MeshGateway: objectAt(item, "MeshGateway"),
  }, ["Protocol", "ConnectTimeoutMs"]);
}

function upstreamFaults(config: JsonObject): readonly string[] {
  const { Overrides: overrides, Defaults: defaults } = config;
  const faults: string[] = [];
  for (const item of Array.isArray(overrides) ? overrides as readonly JsonObject[] : []) {
    const name = textAt(item, "Name");
    const fault = name === ""
      ? "Name is required"
      : name === "*"
      ? "Wildcard name is not supported"
      : valueFaults(item);
    if (fault === "") continue;
    faults.push(`error in upstream override for ${name}:${textAt(item, "Peer")}: ${fault}`);
  }
  if (isObject(defaults)) {
    const fault = textAt(defaults, "Name") === "" ? valueFaults(defaults) : "Name must be empty";
    if (fault !== "") faults.push(`error in upstream defaults: ${fault}`);
  }
  return faults;
}

const LIMITS = {
  MaxConnections: "max connections",
  MaxPendingRequests: "max pending requests",
  MaxConcurrentRequests: "max concurrent requests",
};

/** Of the limits only the first fault is told. */
function valueFaults(item: JsonObject): string {
  const passive = objectAt(item, "PassiveHealthCheck");
  const limits = objectAt(item, "Limits");
  const isPercent = (key: string) => numberAt(passive, key) >= 0 && numberAt(passive, key) <= 100;
  const passiveFault = numberAt(passive, "Interval") < 0
    ? "interval cannot be negative"
    : !isPercent("EnforcingConsecutive5xx")
    ? "enforcing_consecutive_5xx must be a percentage between 0 and 100"
    : !isPercent("MaxEjectionPercent")
    ? "max_ejection_percent must be a percentage between 0 and 100"
    : numberAt(passive, "BaseEjectionTime") < 0
    ? "base_ejection_time cannot be negative"
    : "";
  const negative = Object.entries(LIMITS).find(([key]) => numberAt(limits, key) < 0)?.[1];
  return multiError([
    ...passiveFault === "" ? [] : [`passive health check ${passiveFault}`],
    ...negative === undefined ? [] : [`${negative} cannot be negative`],
    ...balanceFault(item, "BalanceOutboundConnections", "balance_outbound_connections"),
  ]);
}

function balanceFault(item: JsonObject, key: string, shown: string): readonly string[] {
  const value = textAt(item, key);
  return BALANCES.includes(value) ? [] : [`invalid value for ${shown}: ${value}`];
}
