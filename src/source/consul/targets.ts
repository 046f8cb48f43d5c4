/** Target parts from instances: addresses, weights and identities. @module */

import { type Endpoint, judgeHealth } from "../../balance/mod.ts";
import type { Instance, QueryResult, ServiceRef } from "../../consul/mod.ts";
import { formatQuerySni, formatServiceId, formatServiceSni } from "../../identity/mod.ts";
import type { Content, FailingInstance, TargetPart } from "../../snapshot/mod.ts";
import type { PlannedTarget, ProxyLocation } from "./plan.ts";

export type TargetContent = Content<TargetPart>;

interface EndpointOptions {
  readonly onlyPassing: boolean;
  readonly isRemote: (instance: Instance) => boolean;
}

/** Endpoints by whether they may be dialled, in an order that does not depend on the reply's. */
function endpointsOf(
  instances: readonly Instance[],
  options: EndpointOptions,
): Pick<TargetContent, "endpoints" | "unhealthy"> {
  const endpoints = new Map<string, Endpoint>();
  const unhealthy = new Map<string, FailingInstance>();
  for (const instance of instances) {
    const { usable, weight } = judgeHealth(instance, options);
    const remote = options.isRemote(instance);
    const host = remote ? instance.wanHost : instance.host;
    const port = remote ? instance.wanPort : instance.port;
    // Port 0 is a registration without a port.
    if (host === "" || port < 1 || port > 65_535) continue;
    // Node names are unique in a datacenter only.
    const id = `${instance.datacenter}/${instance.node}/${instance.serviceId}`;
    // Envoy has no weight below 1, either.
    if (usable) endpoints.set(id, { id, host, port, weight });
    else {
      const { checks } = instance;
      unhealthy.set(id, { id, host, port, weight: 1, ...(checks && { checks }) });
    }
  }
  const sorted = <T extends Endpoint>(found: ReadonlyMap<string, T>) =>
    [...found.values()].sort((a, b) => a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
  return { endpoints: sorted(endpoints), unhealthy: sorted(unhealthy) };
}

/** A list as far as it is known. */
interface InstanceList<T> {
  /** Absent: not answered yet, nothing can be dialled. */
  readonly value: T | undefined;
  /** Why it cannot be watched at present. */
  readonly failing: string | undefined;
}

/** A chain's target. */
export function targetOf(
  planned: PlannedTarget,
  { value: instances, failing }: InstanceList<readonly Instance[]>,
  trustDomains: readonly string[],
): TargetContent {
  const { service, datacenter, filter } = planned.health;
  const options = { onlyPassing: planned.onlyPassing, isRemote: () => planned.remote };
  const { endpoints, unhealthy } = endpointsOf(instances ?? [], options);
  return {
    key: planned.key,
    names: planned.names,
    sni: planned.sni,
    cluster: planned.cluster,
    spiffeUris: urisOf([planned.identity], trustDomains),
    connectTimeoutMs: planned.connectTimeoutMs,
    endpoints,
    unhealthy,
    lastResort: endpointsOf(failingOf(instances ?? [], options), options).endpoints,
    lack: lackOf({
      of: `"${service}" in ${datacenter}${filter && ` where ${filter}`}`,
      instances,
      usable: endpoints.length,
      failing,
    }),
  };
}

/**
 * Instances that fail their checks. A check is up to ten seconds late: an instance may serve again long before
 * its check says so, and an agent that restarts sets every check to critical until it ran. Instances in
 * maintenance mode are left alone.
 */
function failingOf(
  instances: readonly Instance[],
  options: { readonly onlyPassing: boolean },
): readonly Instance[] {
  return instances
    .filter(({ health, maintenance }) =>
      maintenance === undefined &&
      (health === "critical" || health === "warning" && options.onlyPassing)
    )
    .map((instance) => ({ ...instance, health: "passing" }));
}

/**
 * A prepared query's one target. The query decides which services answer, so the identities are those
 * of the instances it returned.
 */
export function queryTargetOf(
  query: { readonly key: string; readonly name: string; readonly datacenter: string },
  { value: result, failing }: InstanceList<QueryResult>,
  { trustDomains, place, connectTimeoutMs }: {
    readonly trustDomains: readonly string[];
    readonly place: ProxyLocation;
    readonly connectTimeoutMs: number;
  },
): TargetContent {
  const instances = result?.instances ?? [];
  const identities = instances.map((instance): ServiceRef => ({
    partition: instance.partition || "default",
    namespace: instance.namespace || "default",
    datacenter: instance.datacenter || (result?.datacenter ?? ""),
    service: instance.service,
  }));
  const datacenter = query.datacenter || place.datacenter;
  const options: EndpointOptions = {
    onlyPassing: false,
    isRemote: (instance) => (instance.datacenter || result?.datacenter) !== place.datacenter,
  };
  const { endpoints, unhealthy } = endpointsOf(instances, options);
  const [trustDomain = ""] = trustDomains;
  const cluster = formatQuerySni({ query: query.name, datacenter, trustDomain });
  // A terminating gateway closes connections whose SNI is no service of its own; sidecars take any.
  const behind = identities.find((_, at) => instances[at]?.gateway);
  return {
    key: query.key,
    sni: behind ? formatServiceSni({ ...behind, trustDomain }) : cluster,
    cluster,
    spiffeUris: urisOf(identities, trustDomains),
    connectTimeoutMs,
    endpoints,
    unhealthy,
    lastResort: [],
    lack: lackOf({
      of: `the prepared query "${query.name}" in ${datacenter}`,
      instances: result?.instances,
      usable: endpoints.length,
      failing,
    }),
  };
}

/** Every identity in every trust domain in force, sorted, each once. */
function urisOf(
  identities: readonly ServiceRef[],
  trustDomains: readonly string[],
): readonly string[] {
  const uris = new Set<string>();
  for (const identity of identities) {
    for (const trustDomain of trustDomains) uris.add(formatServiceId({ trustDomain, ...identity }));
  }
  return [...uris].sort();
}

/** Why no endpoint of a target can be dialled, for people; `""`: one can. */
export function lackOf({ of, instances, usable, failing }: {
  /** Instances of what: `"db" in dc1`. */
  readonly of: string;
  /** Registered ones; absent: never answered. */
  readonly instances: readonly Pick<Instance, "maintenance">[] | undefined;
  readonly usable: number;
  /** Why the list cannot be had at present; `undefined`: it can. */
  readonly failing: string | undefined;
}): string {
  if (usable > 0) return "";
  if (instances === undefined) {
    return failing === undefined
      ? `who there is of ${of} has not been answered yet`
      : `who there is of ${of} cannot be known: ${failing}`;
  }
  const fact = instances.length === 0
    ? `nobody is registered as ${of}`
    : unusableText(of, instances);
  return failing === undefined ? fact : `${fact}, as far as is known: ${failing}`;
}

function unusableText(of: string, instances: readonly Pick<Instance, "maintenance">[]): string {
  const { length } = instances;
  const kept = instances.flatMap(({ maintenance }) => maintenance ?? []);
  const causes = new Set(kept);
  const [cause] = causes;
  const mode = `in maintenance mode${causes.size === 1 ? ` (${cause})` : ""}`;
  if (length === 1) {
    return `the only instance of ${of} ${kept.length === 1 ? `is ${mode}` : "fails its checks"}`;
  }
  if (kept.length === 0) return `all ${length} instances of ${of} fail their checks`;
  if (kept.length === length) return `all ${length} instances of ${of} are ${mode}`;
  const rest = length - kept.length;
  return `of ${length} instances of ${of}, ${kept.length} ${kept.length === 1 ? "is" : "are"} ` +
    `${mode} and ${rest} ${rest === 1 ? "fails its" : "fail their"} checks`;
}
