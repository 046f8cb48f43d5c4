/** Clusters as Consul names them to Envoy, and `/clusters` in Envoy's shape. @module */

import type { Endpoint } from "../../balance/mod.ts";
import { type Address, formatAddress } from "../../base/mod.ts";
import {
  clusterNames,
  INBOUND_KEY,
  type Resolver,
  type Snapshot,
  type TargetPart,
  type UpstreamPart,
} from "../../snapshot/mod.ts";
import type { EndpointView } from "../../proxy/mod.ts";
import { addressJson, type Json } from "./listeners.ts";

/** The local application, as Consul names it to Envoy. */
export const LOCAL_APP = "local_app";

interface LocalCluster {
  readonly kind: "local";
  readonly name: string;
  readonly address: Address;
}

/** An upstream that fails over: its parts in failover order. */
interface AggregateCluster {
  readonly kind: "aggregate";
  readonly name: string;
  readonly upstream: UpstreamPart;
  readonly children: readonly string[];
}

export interface TargetCluster {
  readonly kind: "target";
  readonly name: string;
  /** Every upstream that leads to this cluster, with its target; equal names have equal configuration. */
  readonly upstreams: readonly UpstreamPart[];
  readonly targets: readonly TargetPart[];
  /** The first upstream; the next three members belong to it. */
  readonly upstream: UpstreamPart;
  readonly resolver: Resolver;
  readonly target: TargetPart;
  readonly credentials: string | null;
}

export type EnvoyClusterView = LocalCluster | AggregateCluster | TargetCluster;

/** One cluster per name: in Envoy, upstreams that lead to the same targets share it. */
export function clustersOf(snapshot: Snapshot | undefined): readonly EnvoyClusterView[] {
  const clusters = new Map<string, EnvoyClusterView>();
  if (!snapshot) return [];
  const inbound = snapshot.inbound[INBOUND_KEY];
  if (inbound) clusters.set(LOCAL_APP, { kind: "local", name: LOCAL_APP, address: inbound.local });
  for (const upstream of Object.values(snapshot.upstreams)) {
    const { credentials } = upstream;
    for (const resolver of Object.values(snapshot.chains[upstream.chain]?.resolvers ?? {})) {
      const names = clusterNames(resolver, snapshot.targets);
      for (const [at, name] of names.entries()) {
        const target = snapshot.targets[resolver.targets[at] ?? ""];
        if (!target) continue;
        const known = clusters.get(name);
        const { upstreams = [], targets = [] } = known?.kind === "target" ? known : {};
        if (targets.includes(target)) continue;
        const first = { kind: "target", name, upstream, resolver, target, credentials } as const;
        clusters.set(name, {
          ...(known?.kind === "target" ? known : first),
          upstreams: [...upstreams, upstream],
          targets: [...targets, target],
        });
      }
      const name = resolverCluster(resolver, snapshot.targets);
      if (names.length > 1 && !clusters.has(name)) {
        clusters.set(name, { kind: "aggregate", name, upstream, children: names });
      }
    }
  }
  return [...clusters.values()];
}

/** The cluster that routes name for a resolver: that of its only target, or the aggregate. */
export function resolverCluster(
  { targets: [primary = ""] }: Pick<Resolver, "targets">,
  targets: Snapshot["targets"],
): string {
  return targets[primary]?.cluster ?? "";
}

interface ClusterHost {
  readonly address: Address;
  readonly weight: number;
  /** It fails its checks. */
  readonly isUnhealthy: boolean;
}

/** An aggregate has none of its own. */
export function hostsOf(cluster: EnvoyClusterView): readonly ClusterHost[] {
  switch (cluster.kind) {
    case "aggregate":
      return [];
    case "local":
      return [{ address: cluster.address, weight: 1, isUnhealthy: false }];
    case "target": {
      const { endpoints, unhealthy } = cluster.target;
      const hostOf = ({ host, port, weight }: Endpoint, isUnhealthy: boolean): ClusterHost => ({
        address: { kind: "tcp", host, port },
        weight,
        isUnhealthy,
      });
      return [
        ...endpoints.map((endpoint) => hostOf(endpoint, false)),
        ...unhealthy.map((endpoint) => hostOf(endpoint, true)),
      ];
    }
  }
}

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
