/**
 * Target parts from instances: who may be dialled at which address with which weight, and who must
 * answer there.
 *
 * @module
 */

import { type Endpoint, judgeHealth } from "../balance/mod.ts";
import type { Instance, QueryResult } from "../consul/mod.ts";
import { formatQuerySni, formatServiceId } from "../identity/mod.ts";
import type { Content } from "./parts.ts";
import type { Place, PlannedTarget, TargetIdentity } from "./plan.ts";
import type { TargetPart } from "./snapshot.ts";

export type TargetContent = Content<TargetPart>;

/** Endpoints of `instances` that may be dialled, in an order that does not depend on the reply's. */
export function endpointsOf(
  instances: readonly Instance[],
  options: { readonly onlyPassing: boolean; readonly isRemote: (instance: Instance) => boolean },
): readonly Endpoint[] {
  const endpoints = new Map<string, Endpoint>();
  for (const instance of instances) {
    const { usable, weight } = judgeHealth(instance, options);
    if (!usable) continue;
    const remote = options.isRemote(instance);
    const host = remote ? instance.wanHost : instance.host;
    const port = remote ? instance.wanPort : instance.port;
    // Port 0 is a registration without one: nobody can be there.
    if (host === "" || port < 1 || port > 65_535) continue;
    // Node names are unique in a datacenter only.
    const id = `${instance.datacenter}/${instance.node}/${instance.serviceId}`;
    endpoints.set(id, { id, host, port, weight });
  }
  return [...endpoints.values()].sort((a, b) => a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}

/** A chain's target; `instances` undefined: not answered yet, nothing can be dialled. */
export function targetOf(
  planned: PlannedTarget,
  instances: readonly Instance[] | undefined,
  trustDomains: readonly string[],
): TargetContent {
  const options = { onlyPassing: planned.onlyPassing, isRemote: () => planned.remote };
  const endpoints = endpointsOf(instances ?? [], options);
  return {
    key: planned.key,
    sni: planned.sni,
    spiffeUris: urisOf([planned.identity], trustDomains),
    connectTimeoutMs: planned.connectTimeoutMs,
    endpoints,
    lastResort: endpoints.length > 0 ? [] : endpointsOf(uncheckedOf(instances ?? []), options),
  };
}

/** Those that nothing is known against: a restarted agent has yet to look at its instances. */
function uncheckedOf(instances: readonly Instance[]): readonly Instance[] {
  return instances.filter(({ unchecked }) => unchecked)
    .map((instance) => ({ ...instance, health: "passing" }));
}

/**
 * A prepared query's one target. The query decides which services answer, so the identities are those
 * of the instances it returned.
 */
export function queryTargetOf(
  query: { readonly key: string; readonly name: string; readonly datacenter: string },
  result: QueryResult | undefined,
  options: {
    readonly trustDomains: readonly string[];
    readonly place: Place;
    readonly connectTimeoutMs: number;
  },
): TargetContent {
  const { trustDomains, place, connectTimeoutMs } = options;
  const instances = result?.instances ?? [];
  const identities = instances.map((instance): TargetIdentity => ({
    partition: instance.partition || "default",
    namespace: instance.namespace || "default",
    datacenter: instance.datacenter || (result?.datacenter ?? ""),
    service: instance.service,
  }));
  const datacenter = query.datacenter || place.datacenter;
  return {
    key: query.key,
    sni: formatQuerySni({ query: query.name, datacenter, trustDomain: trustDomains[0] ?? "" }),
    spiffeUris: urisOf(identities, trustDomains),
    connectTimeoutMs,
    endpoints: endpointsOf(instances, {
      onlyPassing: false,
      isRemote: (instance) => (instance.datacenter || result?.datacenter) !== place.datacenter,
    }),
    lastResort: [],
  };
}

/** Every identity in every trust domain in force, sorted, each once. */
function urisOf(
  identities: readonly TargetIdentity[],
  trustDomains: readonly string[],
): readonly string[] {
  const uris = new Set<string>();
  for (const identity of identities) {
    for (const trustDomain of trustDomains) uris.add(formatServiceId({ trustDomain, ...identity }));
  }
  return [...uris].sort();
}
