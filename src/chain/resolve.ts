/**
 * Resolves a discovery chain: routes in order, their splits, and the resolvers that these end in, with targets,
 * balancing and hash policies. A chain that cannot be followed as written is refused whole: one that loses a
 * part of its meaning is worse than none.
 *
 * @module
 */

import type {
  ChainBalancing,
  ChainCookie,
  ChainHashPolicy,
  ChainSplit,
  ChainTarget,
  DiscoveryChain,
  HashPolicy,
  LoadBalancing,
  MadeCookie,
  ResolverNode,
  RouteDestination,
  RouteMatch,
  RouterNode,
} from "./compiled_chain.ts";

/** Location of the proxy itself. */
export interface Locality {
  readonly datacenter: string;
  /** `""` and `default` are the same. */
  readonly partition: string;
}

export type Resolution =
  | {
    readonly kind: "resolved";
    /** The last route takes requests that no other matches. A single route: there is no router. */
    readonly routes: readonly ResolvedRoute[];
    /** By the key that splits have. */
    readonly resolvers: ReadonlyMap<string, ResolvedResolver>;
    /** Keys of resolvers that no split leads to, for plugins that choose them. */
    readonly unweighted: ReadonlySet<string>;
    /** For a whole HTTP exchange; 0: none. */
    readonly requestTimeoutMs: number;
  }
  /** A sentence for the log and the admin server. */
  | { readonly kind: "refused"; readonly reason: string };

export interface ResolvedRoute {
  /** `routes[0]`, by its place in the router, or `default`. */
  readonly name: string;
  /** Its source, for people: `service-router "db": Routes[0]`. */
  readonly at: string;
  readonly service: string;
  readonly match: RouteMatch | null;
  /** `null`: it sets nothing. */
  readonly destination: RouteDestination | null;
  /** See {@link RouterRoute}. */
  readonly unknown: readonly string[];
  /** Never empty. */
  readonly splits: readonly ResolvedSplit[];
  /** The parts of a request that keep it with one endpoint in every split; empty: none. */
  readonly hash: readonly HashPolicy[];
}

export interface ResolvedSplit
  extends Pick<ChainSplit, "requestHeaders" | "responseHeaders" | "unknown"> {
  /** Its source, for people: `service-splitter "db": Splits[0]`. */
  readonly at: string;
  /** Hundredths of a per cent, as in Envoy; never 0. */
  readonly weight: number;
  readonly resolver: string;
}

export interface ResolvedResolver {
  /** Primary first, then in failover order; never empty, each once, timeouts always positive. */
  readonly targets: readonly ChainTarget[];
  readonly balancing: LoadBalancing;
}

/** Place of the route that takes requests that no other matches. */
export const DEFAULT_ROUTE = "default";
/** Consul's default, also for targets without a usable timeout. */
const CONNECT_TIMEOUT_MS = 5_000;
const WHOLE = 10_000;

export function resolveChain(chain: DiscoveryChain, local: Locality): Resolution {
  try {
    return new Resolving(chain, local).resolve();
  } catch (error) {
    if (!(error instanceof Unusable)) throw error;
    return {
      kind: "refused",
      reason: `Cannot use the discovery chain of "${chain.service}": ${error.message}`,
    };
  }
}

/** Whether it has routes or splits, which plain connections cannot follow. */
export function isRouted(chain: DiscoveryChain): boolean {
  const start = own(chain.nodes, chain.startNode);
  return start !== undefined && start.kind !== "resolver";
}

/** Never leaves this file. */
class Unusable extends Error {}

class Resolving {
  readonly #chain: DiscoveryChain;
  readonly #local: Locality;
  readonly #resolvers = new Map<string, ResolvedResolver>();
  /** Keys of resolvers that only splits of weight 0 lead to. */
  readonly #unweighted = new Set<string>();

  constructor(chain: DiscoveryChain, local: Locality) {
    this.#chain = chain;
    this.#local = local;
  }

  resolve(): Resolution {
    const { nodes, startNode, protocol, service } = this.#chain;
    const start = own(nodes, startNode);
    if (!start) throw new Unusable(`its start node "${startNode}" is missing`);
    if (start.kind !== "resolver" && protocol === "tcp") {
      throw new Unusable(
        `it starts with a ${start.kind}, which plain TCP connections cannot follow`,
      );
    }
    const routes = start.kind === "router" ? this.#routes(start) : [{
      name: DEFAULT_ROUTE,
      at: service,
      service,
      match: null,
      destination: null,
      unknown: [],
      splits: this.#splits(startNode),
      hash: this.#hash(startNode),
    }];
    return {
      kind: "resolved",
      routes,
      resolvers: this.#resolvers,
      unweighted: this.#unweighted,
      requestTimeoutMs: start.kind === "resolver" ? start.requestTimeoutMs : 0,
    };
  }

  #routes({ routes }: RouterNode): readonly ResolvedRoute[] {
    const last = routes.length - 1;
    // Consul appends a default route; without it the remaining requests would have no target.
    if (routes[last]?.match !== null) throw new Unusable("its last route does not take everything");
    return routes.map(({ match, destination, unknown, next }, index) => ({
      name: index === last ? DEFAULT_ROUTE : `routes[${index}]`,
      at: `service-router "${this.#chain.service}": Routes[${index}]`,
      service: destination.service || this.#chain.service,
      match,
      destination,
      unknown,
      splits: this.#splits(next),
      hash: this.#hash(next),
    }));
  }

  #hash(id: string): readonly HashPolicy[] {
    const node = own(this.#chain.nodes, id);
    const policies = (node?.kind === "router" ? undefined : node?.balancing)?.hashPolicies ?? [];
    return policies.map((written, index) => {
      const policy = hashPolicy(written);
      if (typeof policy !== "string") return policy;
      throw new Unusable(`${id}: LoadBalancer.HashPolicies[${index}] ${policy}`);
    });
  }

  #splits(id: string): readonly ResolvedSplit[] {
    const node = own(this.#chain.nodes, id);
    if (!node) throw new Unusable(`its node "${id}" is missing`);
    if (node.kind === "router") throw new Unusable(`a route leads to the router "${id}"`);
    if (node.kind === "resolver") {
      this.#resolver(id, node);
      const none = { requestHeaders: null, responseHeaders: null };
      return [{ weight: WHOLE, resolver: id, at: id, unknown: [], ...none }];
    }
    const splits = node.splits.flatMap((split, index): ResolvedSplit[] => {
      const { weight, next, unknown, requestHeaders, responseHeaders } = split;
      const hundredths = Math.round(weight * 100);
      const leg = own(this.#chain.nodes, next);
      if (hundredths === 0) {
        if (leg?.kind === "resolver") this.#unused(next, leg);
        return [];
      }
      if (leg?.kind !== "resolver") throw new Unusable(`a split leads to "${next}", no resolver`);
      this.#resolver(next, leg);
      const at = `service-splitter "${node.name}": Splits[${index}]`;
      const changes = { requestHeaders, responseHeaders };
      return [{ weight: hundredths, resolver: next, at, unknown, ...changes }];
    });
    if (splits.length === 0) throw new Unusable(`no split of "${id}" has a weight`);
    return splits;
  }

  /** Requests go there only where a plugin chooses it, so a fault of it does not matter to the others. */
  #unused(id: string, node: ResolverNode): void {
    if (this.#resolvers.has(id)) return;
    try {
      this.#resolver(id, node);
    } catch (error) {
      if (!(error instanceof Unusable)) throw error;
      return;
    }
    this.#unweighted.add(id);
  }

  #resolver(id: string, node: ResolverNode): void {
    this.#unweighted.delete(id);
    if (this.#resolvers.has(id)) return;
    const balancing = loadBalancing(node.balancing);
    if (!balancing) {
      throw new Unusable(`load balancer policy "${node.balancing.policy}" is unknown`);
    }
    const targets = [...new Set([node.target, ...node.failoverTargets])].map((key) => {
      const target = own(this.#chain.targets, key);
      if (!target) throw new Unusable(`its target "${key}" is missing`);
      const unsupported = whyUnsupported(target, this.#local);
      if (unsupported) throw new Unusable(`target "${key}" ${unsupported}`);
      return { ...target, connectTimeoutMs: connectTimeoutMs(target, node) };
    });
    this.#resolvers.set(id, { targets, balancing });
  }
}

function whyUnsupported(target: ChainTarget, local: Locality): string | undefined {
  if (target.peer) return `is in cluster peer "${target.peer}"; peers are not supported yet`;
  if (!["", "none"].includes(target.localityMode)) {
    return `prioritizes by locality ("${target.localityMode}"), which is not supported`;
  }
  if (isLocal(target, local) || ["", "none"].includes(target.meshGatewayMode)) return undefined;
  return `wants mesh gateway mode "${target.meshGatewayMode}"; mesh gateways are not supported yet` +
    ` (mode "none" connects directly)`;
}

/** Gateway modes count only for targets in another place. */
function isLocal(target: ChainTarget, local: Locality): boolean {
  return (target.datacenter || local.datacenter) === local.datacenter &&
    (target.partition || "default") === (local.partition || "default");
}

/** A failover target keeps its own subset; the resolver's is for the primary one only. */
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

/** Envoy's default; fewer than two would not be a choice. */
const CHOICE_COUNT = 2;
const RING_MINIMUM = 1024;
const RING_MAXIMUM = 8_388_608;

/** Envoy's defaults for absent members (or 0); `undefined`: an unknown policy. */
export function loadBalancing(balancing: ChainBalancing): LoadBalancing | undefined {
  switch (balancing.policy) {
    case "":
    case "round_robin":
      return { kind: "round_robin" };
    case "random":
      return { kind: "random" };
    case "maglev":
      return { kind: "maglev" };
    case "least_request":
      return {
        kind: "least_request",
        choiceCount: Math.max(balancing.choiceCount || CHOICE_COUNT, CHOICE_COUNT),
      };
    case "ring_hash": {
      const maximumSize = balancing.maximumRingSize || RING_MAXIMUM;
      const minimumSize = Math.min(balancing.minimumRingSize || RING_MINIMUM, maximumSize);
      return { kind: "ring_hash", minimumSize, maximumSize };
    }
    default:
      return undefined;
  }
}

/** A cookie's name (RFC 6265 4.1.1), and a path that cannot be taken for another attribute. */
const COOKIE_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const COOKIE_PATH = /^[ -:<-~]*$/;

/** A text: why it cannot be followed. Consul checks less, and Envoy then keeps its earlier state. */
function hashPolicy(written: ChainHashPolicy): HashPolicy | string {
  const { field, name, sourceIp, terminal, cookie } = written;
  if (sourceIp) return { kind: "source", terminal };
  switch (field) {
    case "header":
      return { kind: "header", name: name.toLowerCase(), terminal };
    case "query_parameter":
      return { kind: "query", name, terminal };
    case "cookie": {
      const fault = cookieFault(name, cookie);
      return fault ?? { kind: "cookie", name, made: madeCookie(cookie), terminal };
    }
    default:
      return field === "" ? "names nothing to hash" : `hashes "${field}", which nobody knows`;
  }
}

function madeCookie(cookie: ChainCookie | null): MadeCookie | null {
  if (!cookie || !cookie.isSession && cookie.ttlMs === 0) return null;
  const { isSession, ttlMs, path } = cookie;
  return { maxAgeSeconds: isSession ? 0 : Math.floor(ttlMs / 1_000), path };
}

function cookieFault(name: string, cookie: ChainCookie | null): string | undefined {
  if (!cookie) return undefined;
  if (cookie.ttlMs < 0) return "makes a cookie of a negative TTL";
  if (!madeCookie(cookie)) return undefined;
  if (!COOKIE_NAME.test(name)) return `makes a cookie of the name ${JSON.stringify(name)}`;
  return COOKIE_PATH.test(cookie.path) ? undefined : "makes a cookie of a path that it cannot have";
}
