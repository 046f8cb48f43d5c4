/**
 * Target parts from instances: who may be dialled at which address with which weight, and who must
 * answer there.
 *
 * @module
 */

import { type Endpoint, judgeHealth } from "../../balance/mod.ts";
import type { Instance, QueryResult } from "../../consul/mod.ts";
import { lackOf } from "./lack.ts";
import { formatQuerySni, formatServiceId } from "../../identity/mod.ts";
import type { Content } from "../../snapshot/mod.ts";
import type { Place, PlannedTarget, TargetIdentity } from "./plan.ts";
import type { TargetPart } from "../../snapshot/mod.ts";

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

/** A list as far as it is known. */
export interface Answer<T> {
  /** Absent: not answered yet, nothing can be dialled. */
  readonly value: T | undefined;
  /** Why it cannot be asked for at present. */
  readonly failing: string | undefined;
}

/** A chain's target. */
export function targetOf(
  planned: PlannedTarget,
  { value: instances, failing }: Answer<readonly Instance[]>,
  trustDomains: readonly string[],
): TargetContent {
  const { service, datacenter, filter } = planned.health;
  const options = { onlyPassing: planned.onlyPassing, isRemote: () => planned.remote };
  const endpoints = endpointsOf(instances ?? [], options);
  return {
    key: planned.key,
    sni: planned.sni,
    spiffeUris: urisOf([planned.identity], trustDomains),
    connectTimeoutMs: planned.connectTimeoutMs,
    endpoints,
    lastResort: endpoints.length > 0 ? [] : endpointsOf(uncheckedOf(instances ?? []), options),
    lack: lackOf({
      of: `"${service}" in ${datacenter}${filter && ` where ${filter}`}`,
      registered: instances?.length,
      usable: endpoints.length,
      failing,
    }),
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
  { value: result, failing }: Answer<QueryResult>,
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
  const endpoints = endpointsOf(instances, {
    onlyPassing: false,
    isRemote: (instance) => (instance.datacenter || result?.datacenter) !== place.datacenter,
  });
  return {
    key: query.key,
    sni: formatQuerySni({ query: query.name, datacenter, trustDomain: trustDomains[0] ?? "" }),
    spiffeUris: urisOf(identities, trustDomains),
    connectTimeoutMs,
    endpoints,
    lastResort: [],
    lack: lackOf({
      of: `the prepared query "${query.name}" in ${datacenter}`,
      registered: result?.instances.length,
      usable: endpoints.length,
      failing,
    }),
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
