/**
 * Listeners, clusters and the secrets that they use, under the names of Envoy's statistics.
 *
 * @module
 */

import type { Labels } from "../../base/mod.ts";
import { parseServiceId } from "../../identity/mod.ts";
import type { SecretStatus } from "../../secrets/mod.ts";
import { INBOUND_KEY, MESH_KEY, type Snapshot } from "../../snapshot/mod.ts";
import { credentialsUsers, secretsOf } from "../secrets/credential_uses.ts";
import { clustersOf } from "./clusters.ts";
import type { MergedView } from "../merge.ts";
import type { AdminView } from "../view.ts";

/** A certificate or CA in use. */
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
