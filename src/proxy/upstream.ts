/**
 * One declared upstream as the data path holds it: its limits, and the group of targets that it leads to.
 * Lives as long as the upstream is declared; every change is applied in place, so that counts and open
 * connections stay.
 *
 * @module
 */

import { DEFAULT_OUTLIER } from "../balance/mod.ts";
import type { Random } from "../base/mod.ts";
import type { ChainPart, Snapshot, UpstreamPart } from "../snapshot/mod.ts";
import type { Limiter } from "./admission.ts";
import type { ListenerStats } from "./connection.ts";
import { Refusals } from "./refusal.ts";
import { type GroupOwner, TargetGroup } from "./target_group.ts";

/** Until the chain is known: nobody can be picked. */
const NOWHERE: ChainPart = {
  version: 0,
  resolver: { targets: [], balancing: { kind: "round_robin" }, outlier: DEFAULT_OUTLIER },
};

export class Upstream implements GroupOwner {
  part: UpstreamPart;
  readonly stats: ListenerStats;
  readonly connections: Limiter;
  readonly pending: Limiter;
  /** Of HTTP: open requests, and callers that are connected. */
  readonly requests: Limiter;
  readonly callers: Limiter;
  readonly refusals = new Refusals();
  readonly group: TargetGroup;

  constructor(part: UpstreamPart, options: {
    readonly stats: ListenerStats;
    readonly connections: Limiter;
    readonly pending: Limiter;
    readonly requests: Limiter;
    readonly callers: Limiter;
    readonly random: Random;
  }) {
    this.part = part;
    this.stats = options.stats;
    this.connections = options.connections;
    this.pending = options.pending;
    this.requests = options.requests;
    this.callers = options.callers;
    this.group = new TargetGroup(this, NOWHERE.resolver, options.random);
  }

  /** Takes over the declaration, its chain and the targets that this names. */
  update(part: UpstreamPart, { chains, targets }: Snapshot): void {
    const { resolver, version } = chains[part.chain] ?? NOWHERE;
    this.part = part;
    this.connections.limit = part.maxConnections;
    this.pending.limit = part.maxPending;
    this.requests.limit = part.maxRequests;
    this.group.update(resolver, version, targets);
  }
}
