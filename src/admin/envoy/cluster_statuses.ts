/**
 * `/clusters` in Envoy's shape, as Consul's tools, dashboards and scripts read it. Numbers that Postern does
 * not count are left out.
 *
 * @module
 */

import { formatAddress } from "../../base/mod.ts";
import type { EndpointView } from "../../proxy/mod.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import { type ClusterHost, clustersOf, type EnvoyClusterView, hostsOf } from "./clusters.ts";
import { addressJson, type Json } from "./json.ts";

interface HostStatus extends ClusterHost {
  readonly active: number;
  readonly isEjected: boolean;
}

interface ClusterStatus {
  readonly cluster: EnvoyClusterView;
  readonly hosts: readonly HostStatus[];
}

function statusesOf(
  snapshot: Snapshot | undefined,
  endpoints: readonly EndpointView[],
): readonly ClusterStatus[] {
  const keyOf = (target: string, address: string) => `${target}\u0000${address}`;
  const views = new Map(
    endpoints.filter(({ lastResort }) => !lastResort)
      .map((view) => [keyOf(view.target, view.address), view]),
  );
  return clustersOf(snapshot).map((cluster) => {
    const target = cluster.kind === "target" ? cluster.target.key : "";
    const hosts = hostsOf(cluster).map((host) => {
      const view = views.get(keyOf(target, formatAddress(host.address)));
      const { active = 0, ejectedForMs = 0 } = view ?? {};
      return { ...host, active, isEjected: ejectedForMs > 0 };
    });
    return { cluster, hosts };
  });
}

/** `/clusters?format=json`. */
export function clusterStatusesJson(
  snapshot: Snapshot | undefined,
  endpoints: readonly EndpointView[],
): Json {
  const shown = statusesOf(snapshot, endpoints).map(({ cluster, hosts }) => ({
    name: cluster.name,
    added_via_api: true,
    host_statuses: hosts.map((host) => ({
      address: addressJson(host.address),
      stats: [{ type: "GAUGE", value: String(host.active), name: activeName(cluster) }],
      health_status: {
        ...(host.isEjected && { failed_outlier_check: true }),
        eds_health_status: host.isUnhealthy ? "UNHEALTHY" : "HEALTHY",
      },
      weight: host.weight,
      locality: {},
    })),
    circuit_breakers: { thresholds: [thresholdsOf(cluster)] },
    observability_name: cluster.name,
  }));
  return { cluster_statuses: shown };
}

/** An endpoint carries requests where HTTP is spoken, else connections. */
function activeName(cluster: EnvoyClusterView): "rq_active" | "cx_active" {
  return cluster.kind !== "local" && cluster.upstream.http ? "rq_active" : "cx_active";
}

/** The limits of an upstream hold for all its clusters together. */
function thresholdsOf(cluster: EnvoyClusterView): Json {
  if (cluster.kind === "local") return {};
  const { maxConnections, maxPending, maxRequests } = cluster.upstream;
  return {
    max_connections: maxConnections,
    max_pending_requests: maxPending,
    max_requests: maxRequests,
  };
}

/** `/clusters`: one fact per line, `name::address::key::value`; last, why a cluster has no instance. */
export function clusterStatusLines(
  snapshot: Snapshot | undefined,
  endpoints: readonly EndpointView[],
): readonly string[] {
  return statusesOf(snapshot, endpoints).flatMap(({ cluster, hosts }) => {
    const { name } = cluster;
    const limits = Object.entries(thresholdsOf(cluster))
      .map(([key, value]) => `${name}::default_priority::${key}::${value}`);
    const facts = hosts.flatMap((host) => {
      const at = `${name}::${formatAddress(host.address)}`;
      return [
        `${at}::${activeName(cluster)}::${host.active}`,
        `${at}::health_flags::${flagsOf(host)}`,
        `${at}::weight::${host.weight}`,
      ];
    });
    const lack = cluster.kind === "target" ? cluster.target.lack : "";
    return [
      `${name}::observability_name::${name}`,
      ...limits,
      `${name}::added_via_api::true`,
      ...facts,
      ...(lack === "" ? [] : [`${name}::no_endpoint::${lack}`]),
    ];
  });
}

function flagsOf({ isUnhealthy, isEjected }: HostStatus): string {
  const flags = [isEjected && "/failed_outlier_check", isUnhealthy && "/failed_eds_health"];
  return flags.filter(Boolean).join("") || "healthy";
}
