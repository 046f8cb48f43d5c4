/**
 * One declared upstream as the data path holds it: its limits, and the groups of targets that its chain
 * leads to. Lives as long as the upstream is declared; every change is applied in place, so that counts
 * and open connections stay.
 *
 * @module
 */

import { DEFAULT_OUTLIER } from "../../balance/mod.ts";
import type { Random } from "../../base/mod.ts";
import { DEFAULT_ROUTE, evenChance, pickSplit } from "../../chain/mod.ts";
import {
  type ChainPart,
  type ChainRoute,
  oneWay,
  type Snapshot,
  type UpstreamPart,
} from "../../snapshot/mod.ts";
import type { SharedLimiter } from "../core/admission.ts";
import type { ListenerStats } from "../observe/listener_stats.ts";
import { RequestHash } from "./request_hash.ts";
import { PeerRefusals } from "./peer_refusals.ts";
import { type GroupContext, TargetGroup } from "./target_group.ts";

/** Until the chain is known: nobody can be picked. */
const NOBODY = {
  targets: [],
  balancing: { kind: "round_robin" },
  outlier: DEFAULT_OUTLIER,
} as const;
const NOWHERE: ChainPart = { version: 0, ...oneWay(NOBODY, "") };

export interface GroupSplit {
  readonly weight: number;
  readonly resolver: string;
  readonly group: TargetGroup;
}
const NO_SPLITS: readonly GroupSplit[] = [];

/** Where the routes of a chain led when it was asked: whoever is under way keeps to that. */
export class RouteTable {
  readonly #splits = new Map<string, readonly GroupSplit[]>();
  /** Of each route its own, so that it adds up whatever comes to the others. */
  readonly #chances = new Map<string, Random>();
  readonly #hashes = new Map<string, RequestHash>();

  constructor(
    routes: readonly ChainRoute[],
    groups: ReadonlyMap<string, TargetGroup>,
    random: Random,
  ) {
    for (const { name, splits, hash } of routes) {
      if (hash.length > 0) this.#hashes.set(name, new RequestHash(hash));
      this.#chances.set(name, evenChance(random));
      this.#splits.set(
        name,
        splits.flatMap(({ weight, resolver }) => {
          const group = groups.get(resolver);
          return group ? [{ weight, resolver, group }] : [];
        }),
      );
    }
  }

  /**
   * For one request, by that resolver where the route has a split to it, else by chance. `undefined`:
   * there is no such route.
   */
  groupFor(route: string, resolver?: string): TargetGroup | undefined {
    const splits = this.splitsOf(route);
    const chance = this.#chances.get(route);
    if (!chance) return undefined;
    const chosen = resolver === undefined
      ? undefined
      : splits.find((split) => split.resolver === resolver);
    return (chosen ?? pickSplit(splits, chance))?.group;
  }

  splitsOf(route: string): readonly GroupSplit[] {
    return this.#splits.get(route) ?? NO_SPLITS;
  }

  /** Requests of some route are hashed. */
  get hashes(): boolean {
    return this.#hashes.size > 0;
  }

  /** Of the requests on that route; `undefined`: nothing keeps them with an endpoint. */
  hashFor(route: string): RequestHash | undefined {
    return this.#hashes.get(route);
  }
}

export class Upstream implements GroupContext {
  part: UpstreamPart;
  readonly stats: ListenerStats;
  readonly connections: SharedLimiter;
  readonly pending: SharedLimiter;
  /** Of HTTP: open requests, and callers that are connected. */
  readonly requests: SharedLimiter;
  readonly callers: SharedLimiter;
  readonly refusals = new PeerRefusals();
  readonly #random: Random;
  #chainVersion = NaN;
  #groups: ReadonlyMap<string, TargetGroup> = new Map();
  #ways: RouteTable;

  constructor(part: UpstreamPart, options: {
    readonly stats: ListenerStats;
    readonly connections: SharedLimiter;
    readonly pending: SharedLimiter;
    readonly requests: SharedLimiter;
    readonly callers: SharedLimiter;
    readonly random: Random;
  }) {
    this.part = part;
    this.stats = options.stats;
    this.connections = options.connections;
    this.pending = options.pending;
    this.requests = options.requests;
    this.callers = options.callers;
    this.#random = options.random;
    this.#ways = this.#follow(NOWHERE, {});
  }

  /** Takes over the declaration, its chain and the targets that this names. */
  update(part: UpstreamPart, { chains, targets }: Snapshot): void {
    this.part = part;
    this.connections.limit = part.maxConnections;
    this.callers.limit = part.maxClientConnections ?? Infinity;
    this.pending.limit = part.maxPending;
    this.requests.limit = part.maxRequests;
    this.#ways = this.#follow(chains[part.chain] ?? NOWHERE, targets);
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
    if (version === this.#chainVersion) return this.#ways;
    this.#chainVersion = version;
    return new RouteTable(routes, groups, this.#random);
  }

  /** Of now; another object where the chain is another. */
  get routes(): RouteTable {
    return this.#ways;
  }

  get groups(): Iterable<TargetGroup> {
    return this.#groups.values();
  }

  /** Names of all clusters that it leads to. */
  get clusters(): ReadonlySet<string> {
    const names = new Set<string>();
    for (const group of this.groups) for (const { cluster } of group.targets) names.add(cluster);
    return names;
  }

  /** For a plain connection. */
  get group(): TargetGroup | undefined {
    return this.#ways.groupFor(DEFAULT_ROUTE);
  }
}
