/**
 * The plan of a declared upstream: its routes, the targets they end in, and the watches for each target; or
 * the reason why it cannot be served. A plan is whole or refused, never half an upstream.
 *
 * @module
 */

import type { LoadBalancing } from "../../balance/mod.ts";
import { type ChainTarget, resolveChain } from "../../chain/mod.ts";
import type {
  ChainRequest,
  DiscoveryChain,
  HealthRequest,
  QueryRequest,
  ServiceRef,
  UpstreamDeclaration,
} from "../../consul/mod.ts";
import type { ChainRoute, TargetNames } from "../../snapshot/mod.ts";
import { pluginsOfRoute } from "./route_plugins.ts";

/** Where the proxy itself is: decides what is far away and what a chain is compiled for. */
export type ProxyLocation = Pick<ServiceRef, "datacenter" | "partition">;

export interface PlannedTarget {
  /** Key of the target part: unique over all upstreams, so that none shares state with another. */
  readonly key: string;
  readonly names: TargetNames;
  readonly sni: string;
  /** As {@link TargetPart.cluster}. */
  readonly cluster: string;
  /** The identity that a server must prove; the trust domains are added when a snapshot is made. */
  readonly identity: ServiceRef;
  readonly connectTimeoutMs: number;
  readonly onlyPassing: boolean;
  /** In another datacenter or partition: dialled at WAN addresses. */
  readonly remote: boolean;
  readonly health: HealthRequest;
}

interface PlannedResolver {
  readonly targets: readonly string[];
  readonly balancing: LoadBalancing;
}

export type UpstreamPlan =
  | { readonly kind: "pending" }
  | {
    readonly kind: "targets";
    /** Targets of all resolvers, each once. */
    readonly targets: readonly PlannedTarget[];
    readonly routes: readonly ChainRoute[];
    readonly resolvers: Readonly<Record<string, PlannedResolver>>;
    /** As Consul wrote it. */
    readonly protocol: string;
    /** Timeout of a whole HTTP exchange; 0: none. */
    readonly requestTimeoutMs: number;
  }
  | { readonly kind: "query"; readonly request: QueryRequest; readonly connectTimeoutMs: number }
  | { readonly kind: "refused"; readonly reason: string };

/** Envoy's and the chain's default. */
const CONNECT_TIMEOUT_MS = 5_000;

/** Upstreams with the same request have the same key, so that one watch serves them all. */
export function healthKey(request: HealthRequest): string {
  return `health ${request.datacenter}/${request.service}?${request.filter}`;
}

/** Why `declaration` cannot be served with any chain; `undefined`: it can. */
export function refuseDeclaration(declaration: UpstreamDeclaration): string | undefined {
  if (declaration.peer !== "") {
    return `its service lives in cluster peer "${declaration.peer}", and peering is not supported yet`;
  }
  for (const what of ["namespace", "partition"] as const) {
    if (!["", "default"].includes(declaration[what])) {
      return `its ${what} is "${declaration[what]}", and only "default" is supported`;
    }
  }
  return undefined;
}

export function chainRequest(
  declaration: UpstreamDeclaration,
  protocol = declaration.protocol,
): ChainRequest {
  return {
    service: declaration.name,
    datacenter: declaration.datacenter,
    ...(protocol !== "" && { protocol }),
    ...(declaration.connectTimeoutMs !== undefined &&
      { connectTimeoutMs: declaration.connectTimeoutMs }),
    ...(declaration.meshGatewayMode !== "" && { meshGatewayMode: declaration.meshGatewayMode }),
  };
}

export function planQuery(
  declaration: UpstreamDeclaration,
  defaultIntervalMs: number,
): UpstreamPlan {
  return {
    kind: "query",
    request: {
      name: declaration.name,
      datacenter: declaration.datacenter,
      intervalMs: declaration.queryIntervalMs ?? defaultIntervalMs,
    },
    connectTimeoutMs: declaration.connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
  };
}

export function planChain(
  declaration: UpstreamDeclaration,
  chain: DiscoveryChain,
  place: ProxyLocation,
): UpstreamPlan {
  const resolved = resolveChain(chain, place);
  if (resolved.kind === "refused") return resolved;
  const targets = new Map<string, PlannedTarget>();
  const resolvers: Record<string, PlannedResolver> = {};
  for (const [key, resolver] of resolved.resolvers) {
    const refusal = resolver.targets.map(refuseTarget).find((reason) => reason !== undefined);
    if (refusal && resolved.unweighted.has(key)) continue;
    if (refusal) return { kind: "refused", reason: refusal };
    for (const target of resolver.targets) {
      const planned = planTarget(declaration, target, { place, chain });
      if (!targets.has(planned.key)) targets.set(planned.key, planned);
    }
    const keys = resolver.targets.map(({ id }) => targetKey(declaration, id));
    resolvers[key] = { targets: keys, balancing: resolver.balancing };
  }
  const routes: ChainRoute[] = [];
  for (const route of resolved.routes) {
    const converted = pluginsOfRoute(route);
    if (converted.kind === "refused") return converted;
    const { name, service, match, hash } = route;
    const { splits, plugins } = converted;
    routes.push({ name, service, match, splits, hash, plugins });
  }
  return {
    kind: "targets",
    targets: [...targets.values()],
    routes,
    resolvers,
    protocol: chain.protocol,
    requestTimeoutMs: resolved.requestTimeoutMs,
  };
}

function targetKey(declaration: UpstreamDeclaration, id: string): string {
  return `${declaration.id}#${id}`;
}

function planTarget(
  declaration: UpstreamDeclaration,
  target: ChainTarget,
  { place, chain: { customization } }: {
    readonly place: ProxyLocation;
    readonly chain: DiscoveryChain;
  },
): PlannedTarget {
  const { id, service, subset, namespace, filter, sni, onlyPassing, connectTimeoutMs } = target;
  const name = target.name || sni;
  const datacenter = target.datacenter || place.datacenter;
  const partition = target.partition || "default";
  return {
    key: targetKey(declaration, id),
    names: { id, service, subset, datacenter },
    sni,
    cluster: customization === "" ? name : `${customization}~${name}`,
    identity: { partition, namespace: namespace || "default", datacenter, service },
    connectTimeoutMs,
    onlyPassing,
    remote: datacenter !== place.datacenter || partition !== (place.partition || "default"),
    health: { service, datacenter, filter },
  };
}

/** Why a resolved target cannot be dialled; `undefined`: it can. */
function refuseTarget(target: ChainTarget): string | undefined {
  const name = `target "${target.id}"`;
  if (target.external) {
    return `${name} is outside the mesh (ExternalSNI), which is not supported yet`;
  }
  return target.sni === "" ? `${name} has no SNI` : undefined;
}
