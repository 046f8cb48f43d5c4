/** Names of listeners, clusters and secrets in Envoy's statistics, and Consul's tags. @module */

import type { Labels } from "../../base/mod.ts";
import { parseServiceId } from "../../identity/mod.ts";
import type { SecretStatus } from "../../secrets/mod.ts";
import { INBOUND_KEY, MESH_KEY, type Snapshot } from "../../snapshot/mod.ts";
import { credentialsUsers, secretsOf } from "../secrets/certs.ts";
import { clustersOf } from "./clusters.ts";
import type { MergedView } from "../merge.ts";
import type { AdminView } from "../view.ts";

export interface UsedSecret {
  readonly name: string;
  readonly source: string;
  /** Absent: a CA. */
  readonly notAfterMs?: number;
}

export interface EnvoyListener {
  /** The label `listener` of our samples. */
  readonly name: string;
  readonly direction: "inbound" | "outbound";
  /** As in `/listeners`. */
  readonly address: string;
  /** As Consul names it to Envoy: `public_listener`, `upstream.db.default.default.dc1`. */
  readonly httpPrefix: string;
  /** Key of the listener's own TLS credentials; `undefined`: plain text, or the proxy's credentials. */
  readonly credentials: string | undefined;
  readonly secrets: readonly UsedSecret[];
}

interface EnvoyCluster {
  /** Ids of the upstreams that lead there: the label `listener` of our samples. */
  readonly upstreams: readonly string[];
  /** As Consul names it to Envoy, the label `cluster` of our samples. */
  readonly name: string;
  readonly targets: readonly string[];
  /** The aggregate that it is a part of, which routes name. */
  readonly aggregate?: string;
  /** Endpoints of the targets; `healthy`: those that balancing may pick. */
  readonly members: { readonly total: number; readonly healthy: number };
  readonly secrets: readonly UsedSecret[];
}

export interface EnvoyFacts {
  readonly listeners: readonly EnvoyListener[];
  readonly clusters: readonly EnvoyCluster[];
  readonly secrets: readonly Pick<SecretStatus, "name" | "source" | "updatedMs">[];
  /** Wall clock. */
  readonly nowMs: number;
}

export function envoyFacts(view: AdminView, { listeners, endpoints }: MergedView): EnvoyFacts {
  const snapshot = view.snapshot();
  const users = snapshot ? credentialsUsers(snapshot) : [];
  const secretsFor = (credentials: string | null | undefined): readonly UsedSecret[] =>
    snapshot && credentials !== undefined ? usedSecrets(snapshot, credentials) : [];
  const clusters = clustersOf(snapshot);
  const aggregates = new Map(
    clusters.flatMap((cluster) =>
      cluster.kind === "aggregate" ? cluster.children.map((child) => [child, cluster.name]) : []
    ),
  );
  return {
    listeners: listeners.map(({ name, direction, address }) => {
      const credentials = users.find((user) => user.kind === "listener" && user.id === name)
        ?.credentials;
      return {
        name,
        direction,
        address,
        httpPrefix: httpPrefixOf(name, direction, snapshot),
        credentials: credentials ?? undefined,
        secrets: secretsFor(credentials),
      };
    }),
    clusters: clusters.flatMap((cluster): EnvoyCluster[] => {
      // The local application has no secrets and no members; an aggregate has those of its parts.
      if (cluster.kind !== "target") return [];
      const { name, upstreams, targets, credentials } = cluster;
      const aggregate = aggregates.get(name);
      const keys = targets.map(({ key }) => key);
      const known = endpoints.filter(({ target, lastResort }) => !lastResort && target === keys[0]);
      const healthy = known.filter(({ ejectedForMs }) => ejectedForMs === 0).length;
      const unhealthy = targets[0]?.unhealthy.length ?? 0;
      return [{
        name,
        upstreams: upstreams.map(({ id }) => id),
        targets: keys,
        ...(aggregate !== undefined && { aggregate }),
        members: { total: known.length + unhealthy, healthy },
        secrets: secretsFor(credentials),
      }];
    }),
    secrets: view.secretsReport().statuses,
    nowMs: view.clock.now(),
  };
}

/** Consul's name; a listener that Consul does not know keeps its own. */
function httpPrefixOf(
  name: string,
  direction: "inbound" | "outbound",
  snapshot: Snapshot | undefined,
): string {
  if (direction === "inbound") return name === INBOUND_KEY ? "public_listener" : name;
  const [, partition, namespace, service] = /^service:([^/]+)\/([^/]+)\/([^/]+)$/.exec(name) ?? [];
  return service === undefined
    ? `upstream.${snapshot?.upstreams[name]?.name ?? name}`
    : `upstream.${service}.${namespace}.${partition}.${snapshot?.datacenter}`;
}

/** The labels that Consul has Envoy add to every statistic; dashboards select a service by them. */
export function sourceLabels(snapshot: Snapshot | undefined): Labels {
  const parsed = parseServiceId(snapshot?.credentials?.uri ?? "");
  if (parsed.kind !== "service") return {};
  const { service, namespace, partition, datacenter } = parsed.id;
  return {
    local_cluster: service,
    consul_source_service: service,
    consul_source_namespace: namespace,
    consul_source_partition: partition,
    consul_source_datacenter: datacenter,
  };
}

function usedSecrets(snapshot: Snapshot, credentials: string | null): readonly UsedSecret[] {
  const { certificates, validation } = secretsOf(snapshot, credentials);
  const mesh = snapshot.credentials;
  const used: UsedSecret[] = [];
  for (const key of certificates) {
    if (key === MESH_KEY) {
      if (mesh) used.push({ name: "leaf", source: "consul", notAfterMs: mesh.notAfterMs });
      continue;
    }
    const part = snapshot.certificates[key];
    if (part) used.push({ name: part.name, source: part.source, notAfterMs: part.notAfterMs });
  }
  const part = validation === null ? undefined : snapshot.validations[validation];
  if (part) used.push({ name: part.name, source: part.source });
  return used;
}

const SEGMENT = "[^.]+";

/** `HASH~SUBSET.SERVICE.NAMESPACE.PARTITION.DATACENTER.internal.TRUSTDOMAIN.consul`; any of HASH, SUBSET and PARTITION may be absent. */
const CLUSTER = new RegExp(
  `^((?:(${SEGMENT})~)?(?:(${SEGMENT})\\.)?(${SEGMENT})\\.(${SEGMENT})\\.(?:(${SEGMENT})\\.)?` +
    `(${SEGMENT}))\\.(internal[^.]*|query)\\.(${SEGMENT})\\.consul$`,
);

/** `upstream.SERVICE.NAMESPACE.PARTITION.DATACENTER` */
const UPSTREAM = new RegExp(
  `^(upstream)\\.(${SEGMENT})(?:\\.(${SEGMENT}))?(?:\\.(${SEGMENT}))?\\.(${SEGMENT})$`,
);

/** `shown`: the name as written in the name of the statistic. */
export function clusterTags(shown: string): Labels {
  const match = CLUSTER.exec(shown);
  if (!match) return { envoy_cluster_name: shown };
  const [, target = "", hash, subset, service, namespace, partition, datacenter, routing, domain] =
    match;
  return tagged({
    // Envoy's own tag ends at the first dot.
    envoy_cluster_name: shown.slice(0, shown.indexOf(".")),
    consul_destination_custom_hash: hash,
    consul_destination_service_subset: subset,
    consul_destination_service: service,
    consul_destination_namespace: namespace,
    consul_destination_partition: partition,
    consul_destination_datacenter: datacenter,
    consul_destination_routing_type: routing,
    consul_destination_trust_domain: domain,
    consul_destination_target: target,
    consul_destination_full_target: `${target}.${routing}.${domain}`,
  });
}

/** Tags of the prefix in `http.PREFIX.` and `tcp.PREFIX.`; `tag`: Envoy's name for it. */
export function prefixTags(tag: string, shown: string): Labels {
  const [, prefix, service, namespace, partition, datacenter] = UPSTREAM.exec(shown) ?? [];
  if (prefix === undefined) return { [tag]: shown };
  return tagged({
    [tag]: prefix,
    consul_upstream_service: service,
    consul_upstream_namespace: namespace,
    consul_upstream_partition: partition,
    consul_upstream_datacenter: datacenter,
  });
}

function tagged(labels: Readonly<Record<string, string | undefined>>): Labels {
  const known = Object.entries(labels).filter(([, value]) => value !== undefined);
  return Object.fromEntries(known) as Labels;
}

/** `envoy_stats_tags`: `name=value`, or a name alone, which is 1. */
export function configuredTags(written: readonly string[]): Labels {
  const tags = written.map((tag) => {
    const at = tag.indexOf("=");
    const name = (at < 0 ? tag : tag.slice(0, at)).toLowerCase();
    return [name, at < 0 ? "1" : tag.slice(at + 1)] as const;
  });
  return Object.fromEntries(tags.filter(([name]) => name !== ""));
}

/** The configured tags as labels of Prometheus, whose names have fewer characters. */
export function configuredLabels(written: readonly string[]): Labels {
  const tags = Object.entries(configuredTags(written));
  return Object.fromEntries(tags.map(([name, value]) => [
    name.replace(/[^a-z0-9_]/g, "_").replace(/^(?=\d)/, "_"),
    value,
  ]));
}
