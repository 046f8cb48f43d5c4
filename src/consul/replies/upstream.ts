/**
 * Declared upstreams of a registration. Central configuration adds entries without a place to listen;
 * those are templates for transparent proxying and are passed over.
 *
 * @module
 */

import * as v from "valibot";
import type { BindAddress } from "../../base/mod.ts";
import { defined } from "../../base/schema.ts";
import type { UpstreamDeclaration } from "../model/values.ts";
import { ProxyConfig } from "./proxy_config.ts";
import { mode, object, port, tenancy, text } from "./schema.ts";

export const UpstreamJson = object({
  DestinationType: text,
  DestinationPartition: tenancy,
  DestinationNamespace: tenancy,
  DestinationPeer: text,
  DestinationName: text,
  Datacenter: text,
  LocalBindAddress: text,
  LocalBindPort: port,
  LocalBindSocketPath: text,
  LocalBindSocketMode: text,
  Config: v.nullish(v.unknown()),
  MeshGateway: mode,
});
type UpstreamJson = v.InferOutput<typeof UpstreamJson>;

/** Upstreams with a listener, sorted by id, because Consul's order is random in places. */
export function toUpstreams(
  rows: readonly UpstreamJson[],
  { meshGatewayMode, warnings }: {
    /** The proxy's, for upstreams without one. */
    readonly meshGatewayMode: string;
    readonly warnings: string[];
  },
): readonly UpstreamDeclaration[] {
  const byId = new Map<string, UpstreamDeclaration>();
  for (const row of rows) {
    if (!row.LocalBindPort && !row.LocalBindSocketPath) continue;
    const type = row.DestinationType || "service";
    if (type !== "service" && type !== "prepared_query") {
      const what = `Upstream ${JSON.stringify(row.DestinationName)} is ignored`;
      warnings.push(`${what}: its type ${JSON.stringify(type)} is unknown`);
      continue;
    }
    const upstream = toUpstream(row, type, meshGatewayMode);
    byId.set(upstream.id, upstream);
  }
  return [...byId.values()].sort((a, b) => a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}

function toUpstream(
  row: UpstreamJson,
  kind: UpstreamDeclaration["kind"],
  meshGatewayMode: string,
): UpstreamDeclaration {
  const warnings: string[] = [];
  const where = `Upstream ${JSON.stringify(row.DestinationName)}`;
  const config = new ProxyConfig(row.Config, { where, warnings });
  config.nameUnfollowed("upstream");
  const limits = config.section("limits");
  const declaration = defined({
    id: idOf(row, kind),
    kind,
    name: row.DestinationName,
    namespace: row.DestinationNamespace,
    partition: row.DestinationPartition,
    peer: row.DestinationPeer,
    datacenter: row.Datacenter,
    bind: bindOf(row, { where, warnings }),
    meshGatewayMode: row.MeshGateway || config.section("mesh_gateway").text("mode") ||
      meshGatewayMode,
    protocol: config.text("protocol") || (kind === "service" ? "" : "tcp"),
    connectTimeoutMs: config.integer("connect_timeout_ms", 0) || undefined,
    // Zero is a limit, too: it allows none.
    maxConnections: limits.integer("max_connections", 0),
    maxClientConnections: limits.integer("max_client_connections", 0),
    maxPending: limits.integer("max_pending_requests", 0),
    maxRequests: limits.integer("max_concurrent_requests", 0),
    outlier: outlierOf(config.section("passive_health_check")),
    queryIntervalMs: config.durationMs("prepared_query_interval"),
    idleTimeoutMs: config.integer("idle_timeout_ms", 0),
    lifetimeMs: config.integer("max_connection_lifetime_ms", 0),
    plugins: config.raw("postern_plugins"),
    tls: config.raw("postern_tls"),
    listenerTls: config.raw("postern_listener_tls"),
  });
  return { ...declaration, ...(warnings.length > 0 && { warnings }) };
}

function idOf(row: UpstreamJson, kind: UpstreamDeclaration["kind"]): string {
  const { DestinationPartition: partition, DestinationNamespace: namespace } = row;
  const name = row.DestinationName;
  const base = kind === "service" ? `service:${partition}/${namespace}/${name}` : `${kind}:${name}`;
  if (row.DestinationPeer) return `${base}?peer=${row.DestinationPeer}`;
  return row.Datacenter ? `${base}?dc=${row.Datacenter}` : base;
}

function bindOf(
  row: UpstreamJson,
  { where, warnings }: { readonly where: string; readonly warnings: string[] },
): BindAddress {
  const { LocalBindSocketPath: path, LocalBindSocketMode: mode } = row;
  if (!path) {
    return { kind: "tcp", host: row.LocalBindAddress || "127.0.0.1", port: row.LocalBindPort };
  }
  if (!mode) return { kind: "unix", path };
  if (/^0?o?[0-7]{1,4}$/.test(mode)) {
    return { kind: "unix", path, mode: parseInt(mode.replace("o", ""), 8) };
  }
  // Without a mode a socket might be open to more users than intended.
  const what = `${where} has LocalBindSocketMode ${JSON.stringify(mode)}`;
  warnings.push(`${what}, which is no octal mode; 0600 is used`);
  return { kind: "unix", path, mode: 0o600 };
}

/** Explicit zeros count only where Consul keeps them apart from unset. */
export function outlierOf(check: ProxyConfig): UpstreamDeclaration["outlier"] {
  return defined({
    maxFailures: check.integer("max_failures", 0) || undefined,
    enforcingPercent: check.integer("enforcing_consecutive_5xx", 0),
    intervalMs: check.durationMs("interval"),
    baseEjectionMs: check.durationMs("base_ejection_time"),
    maxEjectionPercent: check.integer("max_ejection_percent", 0),
  });
}
