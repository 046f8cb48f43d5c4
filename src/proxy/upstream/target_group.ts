/** The targets of one resolver with their pools, changed in place while its chain lives. @module */

import { EndpointPool, type EndpointState, hashText } from "../../balance/mod.ts";
import type { Random } from "../../base/mod.ts";
import {
  clusterNames,
  type Resolver,
  type Snapshot,
  type TargetPart,
  type UpstreamPart,
} from "../../snapshot/mod.ts";
import type { SharedLimiter } from "../core/admission.ts";
import type { ClusterStats, ListenerStats } from "../observe/listener_stats.ts";

/** A target, and the pool of it in this upstream. */
export interface PooledTarget {
  part: TargetPart;
  /** Consul's cluster name for Envoy. */
  cluster: string;
  /** Counters of connections that carry bytes; `undefined`: the upstream speaks HTTP, which has its own. */
  stats: ClusterStats | undefined;
  readonly pool: EndpointPool;
  readonly upstream: Pick<GroupContext, "part">;
}

/** An endpoint in use; released exactly once. */
export interface Lease {
  readonly target: PooledTarget;
  readonly state: EndpointState;
}

export function giveBack({ target, state }: Lease): void {
  target.pool.release(state);
}

/** Identifies a client for hash balancing: its connections and requests go to one endpoint. */
export function hashOfCaller(remote: string): number {
  return hashText(remote.slice(0, Math.max(remote.lastIndexOf(":"), 0)));
}

/** The part that all groups of an upstream share. */
export interface GroupContext {
  readonly part: UpstreamPart;
  readonly stats: ListenerStats;
  readonly connections: SharedLimiter;
  readonly pending: SharedLimiter;
  /** Open HTTP requests. */
  readonly requests: SharedLimiter;
  /** When a refusal by a server was last logged as a warning. */
  readonly refusals: { warnedMs: number };
}

export class TargetGroup {
  readonly upstream: GroupContext;
  readonly dials = new DialWindow();
  readonly #random: Random;
  #resolver: Resolver;
  #version = -1;
  #targets = new Map<string, PooledTarget>();
  /** Endpoints with unanswered handshakes, and their number. */
  readonly #unanswered = new Map<EndpointState, number>();
  #silent: ReadonlySet<EndpointState> = NONE;

  constructor(upstream: GroupContext, resolver: Resolver, random: Random) {
    this.upstream = upstream;
    this.#resolver = resolver;
    this.#random = random;
  }

  /** Applies the targets of `resolver`; `version`: the version of its chain. */
  update(resolver: Resolver, version: number, targets: Snapshot["targets"]): void {
    const policyChanged = version !== this.#version;
    this.#resolver = resolver;
    this.#version = version;
    const kept = new Map<string, PooledTarget>();
    const names = clusterNames(resolver, targets);
    const { part: { http }, stats } = this.upstream;
    for (const [at, key] of resolver.targets.entries()) {
      const target = targets[key];
      if (!target || kept.has(key)) continue;
      const pooled = this.#keep(target, policyChanged);
      pooled.cluster = names[at] ?? "";
      pooled.stats = http ? undefined : stats.of(pooled.cluster);
      kept.set(key, pooled);
    }
    this.#targets = kept;
  }

  #keep(part: TargetPart, policyChanged: boolean): PooledTarget {
    const { balancing, outlier } = this.#resolver;
    const known = this.#targets.get(part.key);
    if (!known) {
      const pool = new EndpointPool({ balancing, outlier, random: this.#random });
      pool.update(part.endpoints, part.lastResort);
      return { part, cluster: "", stats: undefined, pool, upstream: this.upstream };
    }
    if (policyChanged) known.pool.setPolicy(balancing, outlier);
    if (known.part.version !== part.version) {
      known.part = part;
      known.pool.update(part.endpoints, part.lastResort);
    }
    return known;
  }

  /** A handshake takes long: others are preferred until the caller calls the returned function at its end. */
  takesLong(state: EndpointState): () => void {
    this.#unanswered.set(state, (this.#unanswered.get(state) ?? 0) + 1);
    this.#silent = new Set(this.#unanswered.keys());
    return () => {
      const left = (this.#unanswered.get(state) ?? 1) - 1;
      if (left > 0) return void this.#unanswered.set(state, left);
      this.#unanswered.delete(state);
      this.#silent = new Set(this.#unanswered.keys());
    };
  }

  get balancing(): Resolver["balancing"] {
    return this.#resolver.balancing;
  }

  /** A resolver with that target only. */
  resolverFor(target: string): Resolver {
    return { ...this.#resolver, targets: [target] };
  }

  get targets(): Iterable<PooledTarget> {
    return this.#targets.values();
  }

  /**
   * The next endpoint to try: from the first target, in failover order, that has one left and was not tried
   * `perTarget` times. If there is none, an ejected endpoint, since a service with one instance must not be
   * unavailable for longer than the instance is; at last one that fails its checks, or was there before a list
   * turned empty. Endpoints to `avoid`, and slow ones, are not picked while their target has others. The caller
   * releases the lease.
   */
  pick(
    nowMs: number,
    options: {
      readonly hash: number | undefined;
      readonly exclude: ReadonlySet<EndpointState>;
      readonly avoid?: ReadonlySet<EndpointState> | undefined;
      readonly perTarget: number;
    },
  ): Lease | undefined {
    const { hash, exclude, perTarget } = options;
    const avoid = this.#silent.size === 0
      ? options.avoid
      : options.avoid?.union(this.#silent) ?? this.#silent;
    const others = avoid && { hash, exclude: exclude.union(avoid) };
    for (const target of this.#targets.values()) {
      if (exclude.size >= perTarget && triedIn(target, exclude) >= perTarget) continue;
      const state = (others && target.pool.pick(nowMs, others)) ?? target.pool.pick(nowMs, options);
      if (state) return this.#lease(target, state);
    }
    for (const how of ["pickEjected", "pickLastResort"] as const) {
      for (const target of this.#targets.values()) {
        const state = target.pool[how](nowMs, options);
        if (state) return this.#lease(target, state);
      }
    }
    return undefined;
  }

  #lease(target: PooledTarget, state: EndpointState): Lease {
    target.pool.acquire(state);
    return { target, state };
  }

  get isEmpty(): boolean {
    return this.#targets.size === 0;
  }

  /** Why there is no endpoint to pick, in failover order. */
  get lack(): string {
    const lacks = new Set([...this.#targets.values()].map(({ part }) => part.lack));
    lacks.delete("");
    return [...lacks].join("; ") || `Consul has not said yet where "${this.upstream.part.name}" is`;
  }

  /** Whether balancing uses the address of the caller. */
  get needsHash(): boolean {
    const { kind } = this.#resolver.balancing;
    return kind === "ring_hash" || kind === "maglev";
  }
}

const NONE: ReadonlySet<EndpointState> = new Set();

function triedIn(target: PooledTarget, tried: ReadonlySet<EndpointState>): number {
  let count = 0;
  for (const state of tried) if (target.pool.has(state)) count++;
  return count;
}

/** Enough to keep a thread busy while answers travel, few enough that each is quick. */
const WINDOW = 128;

/**
 * Limits the concurrent dials of one upstream. In a burst of thousands all would share the processor until each
 * exceeds its connect timeout and the work is lost; in turns the first complete at once and the rest wait.
 */
export class DialWindow {
  readonly #size: number;
  #dialling = 0;
  readonly #waiting = new Set<() => void>();

  constructor(size: number = WINDOW) {
    this.#size = size;
  }

  /** Calls `start` when its turn comes. The returned function, called at least once, ends the turn or the wait. */
  enter(start: () => void): () => void {
    let state: "waiting" | "dialling" | "left" = "waiting";
    const begin = () => {
      state = "dialling";
      this.#dialling++;
      start();
    };
    if (this.#dialling < this.#size) begin();
    else this.#waiting.add(begin);
    return () => {
      const before = state;
      state = "left";
      if (before === "waiting") this.#waiting.delete(begin);
      else if (before === "dialling") {
        this.#dialling--;
        this.#next();
      }
    };
  }

  #next(): void {
    for (const begin of this.#waiting) {
      if (this.#dialling >= this.#size) return;
      this.#waiting.delete(begin);
      begin();
    }
  }
}
