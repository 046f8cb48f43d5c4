/**
 * `/clusters` in Envoy's shape, as Consul's own tools, dashboards and scripts read it. A number that is
 * not counted here is left out.
 *
 * @module
 */

import { type Address, formatAddress } from "../../base/mod.ts";
import type { Endpoint } from "../../balance/mod.ts";
import type { EndpointView } from "../../proxy/mod.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import { clustersOf, type EnvoyClusterView } from "./clusters.ts";
import { addressJson } from "./json.ts";

interface Host {
  readonly address: Address;
  readonly weight: number;
  readonly active: number;
  readonly isUnhealthy: boolean;
  readonly isEjected: boolean;
}

interface Status {
  readonly cluster: EnvoyClusterView;
  readonly hosts: readonly Host[];
}

function statusesOf(
  snapshot: Snapshot | undefined,
  endpoints: readonly EndpointView[],
): readonly Status[] {
  return clustersOf(snapshot).map((cluster) => ({ cluster, hosts: hostsOf(cluster, endpoints) }));
}

function hostsOf(cluster: EnvoyClusterView, endpoints: readonly EndpointView[]): readonly Host[] {
  switch (cluster.kind) {
    case "aggregate":
      return [];
    case "local": {
      const { address } = cluster;
      return [{ address, weight: 1, active: 0, isUnhealthy: false, isEjected: false }];
    }
    case "target": {
      const { target } = cluster;
      const views = new Map(
        endpoints.filter((view) => view.target === target.key && !view.lastResort)
          .map((view) => [view.address, view]),
      );
      const hostOf = ({ host, port, weight }: Endpoint, isUnhealthy: boolean): Host => {
        const address = { kind: "tcp", host, port } as const;
        const view = views.get(formatAddress(address));
        return {
          address,
          weight,
          active: view?.active ?? 0,
          isUnhealthy,
          isEjected: (view?.ejectedForMs ?? 0) > 0,
        };
      };
      return [
        ...target.endpoints.map((endpoint) => hostOf(endpoint, false)),
        ...target.unhealthy.map((endpoint) => hostOf(endpoint, true)),
      ];
    }
  }
}

/** `/clusters?format=json`. */
export function clusterStatusesJson(
  snapshot: Snapshot | undefined,
  endpoints: readonly EndpointView[],
): Readonly<Record<string, unknown>> {
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

/** What an endpoint that is in use carries: requests where HTTP is spoken, else connections. */
function activeName(cluster: EnvoyClusterView): "rq_active" | "cx_active" {
  return cluster.kind !== "local" && cluster.upstream.http ? "rq_active" : "cx_active";
}

/** Limits that hold for all clusters of an upstream together. */
function thresholdsOf(cluster: EnvoyClusterView): Readonly<Record<string, number>> {
  if (cluster.kind === "local") return {};
  const { maxConnections, maxPending, maxRequests } = cluster.upstream;
  return {
    max_connections: maxConnections,
    max_pending_requests: maxPending,
    max_requests: maxRequests,
  };
}

/** `/clusters`: one fact per line, `name::address::key::value`; last, why a cluster has nobody. */
export function clusterStatusLines(
  snapshot: Snapshot | undefined,
  endpoints: readonly EndpointView[],
): readonly string[] {
  return statusesOf(snapshot, endpoints).flatMap(({ cluster, hosts }) => {
    const { name } = cluster;
    const limits = Object.entries(thresholdsOf(cluster))
      .map(([key, value]) => `${name}::default_priority::${key}::${value}`);
    const facts = hosts.flatMap((host) => {
      const of = `${name}::${formatAddress(host.address)}`;
      return [
        `${of}::${activeName(cluster)}::${host.active}`,
        `${of}::health_flags::${flagsOf(host)}`,
        `${of}::weight::${host.weight}`,
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

function flagsOf({ isUnhealthy, isEjected }: Host): string {
  const flags = [isEjected && "/failed_outlier_check", isUnhealthy && "/failed_eds_health"];
  return flags.filter(Boolean).join("") || "healthy";
}
