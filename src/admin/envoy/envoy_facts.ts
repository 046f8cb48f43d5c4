/**
 * Who uses which secrets, as Envoy's statistics name listeners and clusters.
 *
 * @module
 */

import type { Labels } from "../../base/mod.ts";
import { parseServiceId } from "../../identity/mod.ts";
import { INBOUND_KEY, MESH_KEY, type Snapshot } from "../../snapshot/mod.ts";
import { credentialsUsers, secretsOf } from "../secrets/credential_uses.ts";
import { clustersOf } from "./clusters.ts";
import type { EnvoyCluster, EnvoyFacts, UsedSecret } from "./envoy_stats.ts";
import type { MergedView } from "../merge.ts";
import type { AdminView } from "../view.ts";

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
    secrets: view.secretsReport().statuses.map(({ name, source, updatedMs }) => ({
      name,
      source,
      updatedMs,
    })),
    nowMs: view.clock.now(),
  };
}

/** Consul's names; of a listener that Consul does not know, its own. */
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

/** What Consul has Envoy say of itself with every number: dashboards choose a service by it. */
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
