/**
 * What a discovery chain means for plain connections: one resolver, its target, and those to fail over
 * to. What cannot be done as written is refused whole; a chain that loses a part of its meaning is worse
 * than none. Endpoints, SNI and identities of a target come from others.
 *
 * @module
 */

import { loadBalancing } from "./balancing.ts";
import type { ChainTarget, DiscoveryChain, LoadBalancing, ResolverNode } from "./compiled_chain.ts";

/** Where the proxy itself is. */
export interface Locality {
  readonly datacenter: string;
  /** `""` and `default` are the same. */
  readonly partition: string;
}

export type L4Resolution =
  | {
    readonly kind: "resolved";
    /** Primary first, then in failover order; never empty, each once, timeouts always positive. */
    readonly targets: readonly ChainTarget[];
    readonly balancing: LoadBalancing;
    /** Of a whole HTTP exchange; 0: none. */
    readonly requestTimeoutMs: number;
  }
  /** A sentence for the log and the admin server. */
  | { readonly kind: "refused"; readonly reason: string };

/** Consul's default, also for targets that come without a usable one. */
const CONNECT_TIMEOUT_MS = 5_000;

export function resolveL4(chain: DiscoveryChain, local: Locality): L4Resolution {
  const refuse = (fact: string): L4Resolution => ({
    kind: "refused",
    reason: `Cannot use the discovery chain of "${chain.service}": ${fact}`,
  });
  const start = own(chain.nodes, chain.startNode);
  if (!start) return refuse(`its start node "${chain.startNode}" is missing`);
  if (start.kind !== "resolver") {
    return refuse(`it starts with a ${start.kind}, which plain TCP connections cannot follow`);
  }
  const balancing = loadBalancing(start.balancing);
  if (!balancing) return refuse(`load balancer policy "${start.balancing.policy}" is unknown`);
  const targets: ChainTarget[] = [];
  for (const id of new Set([start.target, ...start.failoverTargets])) {
    const target = own(chain.targets, id);
    if (!target) return refuse(`its target "${id}" is missing`);
    const unsupported = whyUnsupported(target, local);
    if (unsupported) return refuse(`target "${id}" ${unsupported}`);
    targets.push({ ...target, connectTimeoutMs: connectTimeoutMs(target, start) });
  }
  return { kind: "resolved", targets, balancing, requestTimeoutMs: start.requestTimeoutMs };
}

/** It has routes or splits, which {@link resolveL4} refuses. */
export function isRouted(chain: DiscoveryChain): boolean {
  const start = own(chain.nodes, chain.startNode);
  return start !== undefined && start.kind !== "resolver";
}

function whyUnsupported(target: ChainTarget, local: Locality): string | undefined {
  if (target.peer) return `is in cluster peer "${target.peer}"; peers are not supported yet`;
  if (isLocal(target, local) || ["", "none"].includes(target.meshGatewayMode)) return undefined;
  return `wants mesh gateway mode "${target.meshGatewayMode}"; mesh gateways are not supported yet` +
    ` (mode "none" connects directly)`;
}

/** Gateway modes count only for what is elsewhere. */
function isLocal(target: ChainTarget, local: Locality): boolean {
  return (target.datacenter || local.datacenter) === local.datacenter &&
    (target.partition || "default") === (local.partition || "default");
}

/** A failover target keeps its own; the resolver speaks for the primary one only. */
function connectTimeoutMs(target: ChainTarget, resolver: ResolverNode): number {
  // Consul passes on negative durations unchecked (consul_live 5.3).
  if (target.connectTimeoutMs > 0) return target.connectTimeoutMs;
  const isPrimary = target.id === resolver.target;
  return isPrimary && resolver.connectTimeoutMs > 0
    ? resolver.connectTimeoutMs
    : CONNECT_TIMEOUT_MS;
}

/** Ids are names that users choose; one like `constructor` must not find what every object has. */
function own<T>(record: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(record, key) ? record[key] : undefined;
}
