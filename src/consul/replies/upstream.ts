/**
 * Declared upstreams of a registration. Central configuration adds entries without a place to listen;
 * those are templates for transparent proxying and are passed over.
 *
 * @module
 */

import * as v from "valibot";
import type { BindAddress } from "../../base/mod.ts";
import { ProxyConfig } from "./proxy_config.ts";
import { object, port, text } from "./schema.ts";
import type { UpstreamDeclaration } from "../types.ts";

export const UpstreamJson = object({
  DestinationType: text,
  DestinationPartition: text,
  DestinationNamespace: text,
  DestinationPeer: text,
  DestinationName: text,
  Datacenter: text,
  LocalBindAddress: text,
  LocalBindPort: port,
  LocalBindSocketPath: text,
  LocalBindSocketMode: text,
  Config: v.nullish(v.unknown()),
  MeshGateway: v.nullish(object({ Mode: text })),
});
type UpstreamJson = v.InferOutput<typeof UpstreamJson>;

interface Context {
  /** Of the proxy; counts where an upstream has none. */
  readonly meshGatewayMode: string;
  readonly warnings: string[];
}

/** Those that want a listener, sorted by id: Consul's order is random in places. */
export function toUpstreams(
  rows: readonly UpstreamJson[],
  context: Context,
): readonly UpstreamDeclaration[] {
  const byId = new Map<string, UpstreamDeclaration>();
  for (const row of rows) {
    if (!row.LocalBindPort && !row.LocalBindSocketPath) continue;
    const type = row.DestinationType || "service";
    if (type !== "service" && type !== "prepared_query") {
      context.warnings.push(
        `Upstream ${JSON.stringify(row.DestinationName)} is ignored: its type ` +
          `${JSON.stringify(type)} is unknown`,
      );
      continue;
    }
    const upstream = toUpstream(row, { ...context, kind: type });
    byId.set(upstream.id, upstream);
  }
  return [...byId.values()].sort((a, b) => a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}

function toUpstream(
  row: UpstreamJson,
  context: Context & { readonly kind: UpstreamDeclaration["kind"] },
): UpstreamDeclaration {
  const { kind } = context;
  const warnings: string[] = [];
  const where = `Upstream ${JSON.stringify(row.DestinationName)}`;
  const config = new ProxyConfig(row.Config, { where, warnings });
  config.nameUnfollowed("upstream");
  const namespace = row.DestinationNamespace || "default";
  const partition = row.DestinationPartition || "default";
  const limits = config.section("limits");
  const connectTimeoutMs = config.integer("connect_timeout_ms", 0);
  const tls = config.raw("postern_tls");
  const listenerTls = config.raw("postern_listener_tls");
  const declaration = {
    id: idOf(row, { kind, namespace, partition }),
    kind,
    name: row.DestinationName,
    namespace,
    partition,
    peer: row.DestinationPeer,
    datacenter: row.Datacenter,
    bind: bindOf(row, { where, warnings }),
    meshGatewayMode: row.MeshGateway?.Mode || config.section("mesh_gateway").text("mode") ||
      context.meshGatewayMode,
    protocol: config.text("protocol") || (kind === "service" ? "" : "tcp"),
    ...(connectTimeoutMs ? { connectTimeoutMs } : {}),
    // Zero is a limit, too: it allows none.
    ...given("maxConnections", limits.integer("max_connections", 0)),
    ...given("maxClientConnections", limits.integer("max_client_connections", 0)),
    ...given("maxPending", limits.integer("max_pending_requests", 0)),
    ...given("maxRequests", limits.integer("max_concurrent_requests", 0)),
    outlier: outlierOf(config.section("passive_health_check")),
    ...given("queryIntervalMs", config.durationMs("prepared_query_interval")),
    ...given("idleTimeoutMs", config.integer("idle_timeout_ms", 0)),
    ...given("lifetimeMs", config.integer("max_connection_lifetime_ms", 0)),
    ...(config.raw("postern_plugins") !== undefined && { listsPlugins: true }),
    ...(tls !== undefined && { tls }),
    ...(listenerTls !== undefined && { listenerTls }),
  };
  return { ...declaration, ...(warnings.length > 0 && { warnings }) };
}

function idOf(
  row: UpstreamJson,
  options: { readonly kind: string; readonly namespace: string; readonly partition: string },
): string {
  const { kind, namespace, partition } = options;
  const name = row.DestinationName;
  const base = kind === "service" ? `service:${partition}/${namespace}/${name}` : `${kind}:${name}`;
  if (row.DestinationPeer) return `${base}?peer=${row.DestinationPeer}`;
  return row.Datacenter ? `${base}?dc=${row.Datacenter}` : base;
}

function bindOf(
  row: UpstreamJson,
  options: { readonly where: string; readonly warnings: string[] },
): BindAddress {
  if (!row.LocalBindSocketPath) {
    return { kind: "tcp", host: row.LocalBindAddress || "127.0.0.1", port: row.LocalBindPort ?? 0 };
  }
  const path = row.LocalBindSocketPath;
  const written = row.LocalBindSocketMode;
  if (!written) return { kind: "unix", path };
  if (/^0?o?[0-7]{1,4}$/.test(written)) {
    return { kind: "unix", path, mode: parseInt(written.replace("o", ""), 8) };
  }
  // Without its mode a socket might be open to more users than was meant.
  options.warnings.push(
    `${options.where} has LocalBindSocketMode ${JSON.stringify(written)}, which is no octal ` +
      `mode; 0600 is used`,
  );
  return { kind: "unix", path, mode: 0o600 };
}

/** Explicit zeros count only where Consul keeps them apart from unset. */
export function outlierOf(check: ProxyConfig): UpstreamDeclaration["outlier"] {
  const maxFailures = check.integer("max_failures", 0);
  return {
    ...(maxFailures ? { maxFailures } : {}),
    ...given("enforcingPercent", check.integer("enforcing_consecutive_5xx", 0)),
    ...given("intervalMs", check.durationMs("interval")),
    ...given("baseEjectionMs", check.durationMs("base_ejection_time")),
    ...given("maxEjectionPercent", check.integer("max_ejection_percent", 0)),
  };
}

/** `{ [key]: value }`, or nothing where there is none. */
export function given<const K extends string>(
  key: K,
  value: number | undefined,
): { readonly [P in K]?: number } {
  return (value === undefined ? {} : { [key]: value }) as { readonly [P in K]?: number };
}
