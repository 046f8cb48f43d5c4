/**
 * The clusters of a proxy as Consul would name them to Envoy, from the chains of its upstreams.
 *
 * @module
 */

import type { Endpoint } from "../../balance/mod.ts";
import type { Address } from "../../base/mod.ts";
import {
  clusterNames,
  INBOUND_KEY,
  type Resolver,
  type Snapshot,
  type TargetPart,
  type UpstreamPart,
} from "../../snapshot/mod.ts";

/** The local application, as Consul names it to Envoy. */
export const LOCAL_APP = "local_app";

export interface LocalCluster {
  readonly kind: "local";
  readonly name: string;
  readonly address: Address;
}

/** An upstream that fails over: its parts in failover order. */
export interface AggregateCluster {
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

export interface ClusterHost {
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
