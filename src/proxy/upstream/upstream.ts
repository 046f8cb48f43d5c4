/** One declared upstream in the data path: its limits and groups, changed in place. @module */

import { DEFAULT_OUTLIER } from "../../balance/mod.ts";
import type { Random } from "../../base/mod.ts";
import { DEFAULT_ROUTE, evenChance, type HashPolicy, pickSplit } from "../../chain/mod.ts";
import {
  type ChainPart,
  type ChainRoute,
  oneWay,
  type Snapshot,
  type TargetPart,
  type UpstreamPart,
} from "../../snapshot/mod.ts";
import type { Target } from "../../plugin/mod.ts";
import type { SharedLimiter } from "../core/admission.ts";
import type { ListenerStats } from "../observe/listener_stats.ts";
import type { ChosenPool } from "./request_pools.ts";
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

export type ChosenGroup =
  | { readonly kind: "group"; readonly group: TargetGroup }
  | Extract<ChosenPool, { kind: "none" }>;

function isNamed({ key, names }: TargetPart, wanted: Target): boolean {
  const { service, subset, datacenter, id } = wanted;
  if (!names) return id === idOf(key);
  return (service ?? names.service) === names.service &&
    (subset ?? names.subset) === names.subset &&
    (datacenter ?? names.datacenter) === names.datacenter && (id ?? names.id) === names.id;
}

function idOf(key: string): string {
  return key.slice(key.indexOf("#") + 1);
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
  /** Failover targets that plugins have chosen, each alone, by key. */
  readonly #alone = new Map<string, TargetGroup>();
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
    for (const [key, group] of this.#alone) {
      const found = Object.values(resolvers).find((resolver) => resolver.targets.includes(key));
      if (found && targets[key]) group.update({ ...found, targets: [key] }, version, targets);
      else this.#alone.delete(key);
    }
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
    if (this.#alone.size === 0) return this.#groups.values();
    return [...this.#groups.values(), ...this.#alone.values()];
  }

  /** The group of a target that a plugin chose. A target that a resolver begins with has its failover. */
  chosenGroup(wanted: Target): ChosenGroup {
    const found = new Map<string, { readonly group: TargetGroup; readonly isFirst: boolean }>();
    for (const group of this.#groups.values()) {
      let isFirst = true;
      for (const { part } of group.targets) {
        const known = found.get(part.key);
        if (isNamed(part, wanted) && (!known || isFirst && !known.isFirst)) {
          found.set(part.key, { group, isFirst });
        }
        isFirst = false;
      }
    }
    const firsts = [...found].filter(([, { isFirst }]) => isFirst);
    const candidates = firsts.length > 0 ? firsts : [...found];
    const [only, ...others] = candidates;
    if (others.length > 0) {
      const ids = candidates.map(([key]) => idOf(key)).join(", ");
      return { kind: "none", reason: `may be each of ${ids}` };
    }
    if (!only) {
      const ids = new Set(
        [...this.#groups.values()].flatMap(({ targets }) =>
          [...targets].map(({ part }) => idOf(part.key))
        ),
      );
      const known = ids.size === 0 ? "no targets yet" : [...ids].join(", ");
      return { kind: "none", reason: `is not there; ${this.part.name} has ${known}` };
    }
    const [key, { group, isFirst }] = only;
    return { kind: "group", group: isFirst ? group : this.#aloneIn(group, key) };
  }

  #aloneIn(group: TargetGroup, key: string): TargetGroup {
    const known = this.#alone.get(key);
    if (known) return known;
    const alone = new TargetGroup(this, group.resolverFor(key), this.#random);
    const parts = [...group.targets].map(({ part }) => [part.key, part] as const);
    alone.update(group.resolverFor(key), this.#chainVersion, Object.fromEntries(parts));
    this.#alone.set(key, alone);
    return alone;
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
