/** One declared upstream in the data path: its limits and groups, changed in place. @module */

import { DEFAULT_OUTLIER } from "../../balance/mod.ts";
import type { Random } from "../../base/mod.ts";
import { DEFAULT_ROUTE, evenChance, type HashPolicy, pickSplit } from "../../chain/mod.ts";
import {
  type ChainPart,
  type ChainRoute,
  oneWay,
  type Snapshot,
  type UpstreamPart,
} from "../../snapshot/mod.ts";
import type { SharedLimiter } from "../core/admission.ts";
import type { ListenerStats } from "../observe/listener_stats.ts";
import { type GroupContext, TargetGroup } from "./target_group.ts";

/** Without targets, until the chain is known. */
const NO_TARGETS = {
  targets: [],
  balancing: { kind: "round_robin" },
  outlier: DEFAULT_OUTLIER,
} as const;
const EMPTY_CHAIN: ChainPart = { version: 0, ...oneWay(NO_TARGETS, "") };

export interface GroupSplit {
  readonly weight: number;
  readonly resolver: string;
  readonly group: TargetGroup;
}
const NO_SPLITS: readonly GroupSplit[] = [];

interface TableRoute {
  readonly splits: readonly GroupSplit[];
  /** One for each route, so that its weights hold regardless of other routes. */
  readonly chance: Random;
  readonly hash: readonly HashPolicy[];
}

/** The routes of one version of a chain; a request keeps the version that it started with. */
export class RouteTable {
  /** Some route has hash policies. */
  readonly hashes: boolean;
  readonly #routes: ReadonlyMap<string, TableRoute>;

  constructor(
    routes: readonly ChainRoute[],
    groups: ReadonlyMap<string, TargetGroup>,
    random: Random,
  ) {
    this.hashes = routes.some(({ hash }) => hash.length > 0);
    this.#routes = new Map(routes.map(({ name, splits, hash }) => {
      const led = splits.flatMap(({ weight, resolver }) => {
        const group = groups.get(resolver);
        return group ? [{ weight, resolver, group }] : [];
      });
      return [name, { splits: led, chance: evenChance(random), hash }];
    }));
  }

  /** The group of `resolver` if the route has a split to it, else of a random split. `undefined`: no such route. */
  groupFor(name: string, resolver?: string): TargetGroup | undefined {
    const route = this.#routes.get(name);
    if (!route) return undefined;
    const chosen = resolver === undefined
      ? undefined
      : route.splits.find((split) => split.resolver === resolver);
    return (chosen ?? pickSplit(route.splits, route.chance))?.group;
  }

  splitsOf(route: string): readonly GroupSplit[] {
    return this.#routes.get(route)?.splits ?? NO_SPLITS;
  }

  /** The hash policies of the route; `undefined`: it has none. */
  hashFor(route: string): readonly HashPolicy[] | undefined {
    const hash = this.#routes.get(route)?.hash;
    return hash?.length ? hash : undefined;
  }
}

export class Upstream implements GroupContext {
  part: UpstreamPart;
  readonly stats: ListenerStats;
  readonly connections: SharedLimiter;
  readonly pending: SharedLimiter;
  readonly requests: SharedLimiter;
  /** Connected HTTP callers. */
  readonly callers: SharedLimiter;
  readonly refusals = { warnedMs: -Infinity };
  readonly #random: Random;
  #chainVersion = NaN;
  #groups: ReadonlyMap<string, TargetGroup> = new Map();
  #routes: RouteTable;

  constructor(
    part: UpstreamPart,
    options: Pick<Upstream, "stats" | "connections" | "pending" | "requests" | "callers"> & {
      readonly random: Random;
    },
  ) {
    this.part = part;
    this.stats = options.stats;
    this.connections = options.connections;
    this.pending = options.pending;
    this.requests = options.requests;
    this.callers = options.callers;
    this.#random = options.random;
    this.#routes = this.#follow(EMPTY_CHAIN, {});
  }

  /** Applies the declaration, its chain and the targets of the chain. */
  update(part: UpstreamPart, { chains, targets }: Snapshot): void {
    this.part = part;
    this.connections.limit = part.maxConnections;
    this.callers.limit = part.maxClientConnections ?? Infinity;
    this.pending.limit = part.maxPending;
    this.requests.limit = part.maxRequests;
    this.#routes = this.#follow(chains[part.chain] ?? EMPTY_CHAIN, targets);
  }

  #follow(chain: ChainPart, targets: Snapshot["targets"]): RouteTable {
    const { routes, resolvers, version } = chain;
    const groups = new Map<string, TargetGroup>();
    for (const [key, resolver] of Object.entries(resolvers)) {
      const group = this.#groups.get(key) ?? new TargetGroup(this, resolver, this.#random);
      group.update(resolver, version, targets);
      groups.set(key, group);
    }
    this.#groups = groups;
    this.stats.keepClusters(this.clusters);
    if (version === this.#chainVersion) return this.#routes;
    this.#chainVersion = version;
    return new RouteTable(routes, groups, this.#random);
  }

  /** The current routes; a new object for each version of the chain. */
  get routes(): RouteTable {
    return this.#routes;
  }

  get groups(): Iterable<TargetGroup> {
    return this.#groups.values();
  }

  get clusters(): ReadonlySet<string> {
    const names = new Set<string>();
    for (const group of this.groups) for (const { cluster } of group.targets) names.add(cluster);
    return names;
  }

  /** The targets of a TCP connection. */
  get group(): TargetGroup | undefined {
    return this.#routes.groupFor(DEFAULT_ROUTE);
  }
}
