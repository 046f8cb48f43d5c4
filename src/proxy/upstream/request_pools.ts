/**
 * Where the requests of a listener go: a kept connection with room for one more, to the endpoint that was
 * picked or to the local application.
 *
 * @module
 */

import type { EndpointState } from "../../balance/mod.ts";
import { formatAddress } from "../../base/mod.ts";
import type { ChangeFields } from "../../http/mod.ts";
import type { Dial } from "../../net/mod.ts";
import type { Endpoint } from "../../plugin/mod.ts";
import { Attempt, type AttemptHandler } from "./attempt.ts";
import type { Context } from "../core/context.ts";
import type { ListenerFacts } from "../caller/listener_facts.ts";
import { EndpointDial, trustOf } from "./endpoint_dial.ts";
import { FairRequestLimiter } from "../core/fair_limiters.ts";
import { LOCAL_CLUSTER } from "../observe/cluster_stats.ts";
import { dialLocal } from "./local_dial.ts";
import type { HttpRules, InboundPart } from "../../snapshot/mod.ts";
import { SilenceProbe } from "./silence_probe.ts";
import type { Lease, TargetGroup } from "./target_group.ts";
import { type HttpPoolStats, HttpStats } from "../observe/http_stats.ts";
import type { RequestHash } from "./request_hash.ts";
import { ConnectionPool, type PooledConnection } from "./connection_pool.ts";

/** By ALPN, what is preferred first. */
export const EITHER_VERSION: readonly string[] = ["h2", "http/1.1"];
export const HTTP1_ONLY: readonly string[] = ["http/1.1"];
const HTTP2_ONLY: readonly string[] = ["h2"];

export interface RequestPool {
  /** Envoy's name of where they lead, for the access log. */
  readonly cluster: string;
  /**
   * A place for one more request, to be left once by the same caller; false: there is none, as
   * {@link RequestPool.whyFull} says. `caller`: its key in the account of memory; `""`: none in particular.
   */
  enter(caller: string): boolean;
  leave(caller: string): void;
  /** Why {@link RequestPool.enter} said no just now. */
  whyFull(): string;
  /**
   * Tells of a way with room, now or later, with the lease of its endpoint where one was picked; the way
   * must be used at once. Endpoints to `avoid` are passed over while there are others.
   */
  acquire(
    dialler: AttemptHandler<PooledConnection>,
    hash: number | undefined,
    avoid?: readonly Endpoint[],
  ): Dial;
}

/** Where requests go, and what is changed of them and of what is answered. */
export interface RequestRoute {
  /**
   * To be asked once for a request, as what is there to choose from is left to chance. By the name of a
   * chain's route, and of the resolver that its split leads to where that was chosen before; `undefined`:
   * there is none such.
   */
  poolFor(route: string, resolver?: string): RequestPool | undefined;
  /** What keeps requests on such a route with an endpoint; absent: nothing on any. */
  readonly hashFor?: ((route: string) => RequestHash | undefined) | undefined;
  /** The listener whose plugins stand around it, if that is not the one that it came to. */
  readonly plugins?: string;
  readonly changeRequest?: ChangeFields | undefined;
  /** Names of request fields that it changes. */
  readonly ownNames?: readonly string[] | undefined;
  readonly changeResponse?: ChangeFields | undefined;
}

/** Requests that the local application is given at once, and that wait for a connection; as Envoy's. */
const LOCAL_LIMIT = 1_024;
const FULL = `the local application is given ${LOCAL_LIMIT} requests at once`;
const OWN_SHARE = `${FULL}, and the last places are kept for other callers`;
const NONE: ReadonlySet<EndpointState> = new Set();
const NOBODY: readonly Endpoint[] = [];
const NOTHING: Dial = { cancel: () => {} };

/** What is behind a listener for callers of the service; its part may change. */
export interface LocalApplication {
  readonly part: Pick<InboundPart, "local" | "localConnectTimeoutMs"> & {
    readonly http: Pick<HttpRules, "protocol"> | null;
  };
  readonly context: Context;
}

/** To the local application. */
export class LocalPool implements RequestPool {
  readonly cluster = LOCAL_CLUSTER;
  readonly #local: LocalApplication;
  readonly #stats: HttpPoolStats;
  #ways: ConnectionPool;
  #to: string;
  readonly #places = new FairRequestLimiter(LOCAL_LIMIT);

  constructor(local: LocalApplication, stats: HttpPoolStats) {
    this.#local = local;
    this.#stats = stats;
    this.#to = this.#target;
    this.#ways = this.#make();
  }

  /** What a connection has to be made anew for. */
  get #target(): string {
    const { local, http } = this.#local.part;
    return JSON.stringify([local, http?.protocol]);
  }

  #make(): ConnectionPool {
    const { part, context } = this.#local;
    return new ConnectionPool({
      dial: (dialler) =>
        dialLocal(part.local, dialler, {
          context,
          timeoutMs: this.#local.part.localConnectTimeoutMs,
        }),
      version: part.http?.protocol === "http" ? "h1" : "h2",
      context,
      stats: this.#stats,
      connections: undefined,
      timedOut: "local_timed_out",
    });
  }

  enter(caller: string): boolean {
    return this.#places.enter(caller);
  }

  leave(caller: string): void {
    this.#places.leave(caller);
  }

  whyFull(): string {
    return this.#places.full ? FULL : OWN_SHARE;
  }

  acquire(dialler: AttemptHandler<PooledConnection>): Dial {
    return this.#ways.acquire(dialler);
  }

  /** After its part may have changed. */
  update(): void {
    const to = this.#target;
    if (to === this.#to) return;
    this.#to = to;
    this.drain();
  }

  /** Closes what is kept; requests on connections that live on get others. */
  drain(): void {
    this.#ways.drain();
    this.#ways = this.#make();
  }
}

/** The pool and route of a listener that leads to the local application. */
export class LocalRoute {
  readonly stats: HttpStats;
  readonly pool: LocalPool;
  readonly route: RequestRoute;

  constructor(
    listener: LocalApplication & Pick<ListenerFacts, "direction" | "name">,
    speaksGrpc: () => boolean,
  ) {
    const { context, direction, name } = listener;
    this.stats = new HttpStats(context.stats, { direction, listener: name, speaksGrpc });
    this.pool = new LocalPool(listener, this.stats.of(LOCAL_CLUSTER).pool);
    this.route = { poolFor: () => this.pool };
  }
}

/** Offered by ALPN to the endpoints of a group. */
export function protocolsTo({ upstream: { part } }: TargetGroup): readonly string[] {
  return part.http?.protocol === "http" ? HTTP1_ONLY : HTTP2_ONLY;
}

/** To the endpoints of a group. */
export class EndpointPools implements RequestPool {
  readonly #context: Context;
  readonly #group: TargetGroup;
  readonly #stats: HttpStats;
  readonly #ways = new Map<EndpointState, ConnectionPool>();

  constructor(context: Context, group: TargetGroup, stats: HttpStats) {
    this.#context = context;
    this.#group = group;
    this.#stats = stats;
  }

  get cluster(): string {
    const { targets, upstream: { part: { name } } } = this.#group;
    for (const { cluster } of targets) return cluster;
    return name;
  }

  whyFull(): string {
    return `limits.max_concurrent_requests is ${this.#group.upstream.requests.limit}`;
  }

  enter(): boolean {
    return this.#group.upstream.requests.enter();
  }

  leave(): void {
    this.#group.upstream.requests.leave();
  }

  acquire(
    dialler: AttemptHandler<PooledConnection>,
    hash: number | undefined,
    addresses: readonly Endpoint[] = NOBODY,
  ): Dial {
    const { clock } = this.#context;
    const group = this.#group;
    const avoid = addresses.length > 0 ? this.#knownAt(addresses) : undefined;
    let lease: Lease | undefined;
    // Most requests find a connection, and make nothing on their way.
    if (trustOf(group, this.#context)?.fault(clock.now()) === undefined) {
      lease = group.pick(clock.monotonic(), { hash, exclude: NONE, avoid, perTarget: 1 });
      const way = lease && this.#ways.get(lease.state)?.ready();
      if (way) {
        dialler.onDialled(way, lease);
        return NOTHING;
      }
    }
    const attempt = new Attempt<PooledConnection>(group, dialler, {
      context: this.#context,
      hash,
      avoid,
      // Picking again would be the turn of the next one, and this one would never have its own.
      first: lease,
      connect: (lease, _trust, endpointDialler) => this.#to(lease).acquire(endpointDialler),
    });
    attempt.start();
    return attempt;
  }

  /** Whoever is to be avoided was asked before. */
  #knownAt(addresses: readonly Endpoint[]): Set<EndpointState> {
    const known = new Set<EndpointState>();
    for (const state of this.#ways.keys()) {
      const own = formatAddress({ kind: "tcp", ...state.endpoint });
      if (addresses.some(({ address }) => address === own)) known.add(state);
    }
    return known;
  }

  #to({ target, state }: Lease): ConnectionPool {
    let ways = this.#ways.get(state);
    if (ways) return ways;
    const context = this.#context;
    const group = this.#group;
    const protocols = protocolsTo(group);
    const probe = new SilenceProbe(group, { target, state }, {
      context,
      protocols,
      onHung: (reason) => this.#ways.get(state)?.reset(reason),
    });
    ways = new ConnectionPool({
      onSilent: () => probe.ask(),
      dial: (dialler) => {
        const trust = trustOf(group, context);
        if (!trust) {
          dialler.onFailed("not_ready", "no certificate yet");
          return NOTHING;
        }
        // Not counted as use of the endpoint: requests are.
        return new EndpointDial(group, { target, state }, dialler, {
          context,
          trust,
          protocols,
        });
      },
      version: protocols === HTTP1_ONLY ? "h1" : "h2",
      context,
      stats: this.#stats.of(target.cluster).pool,
      connections: group.upstream.connections,
      timedOut: "endpoint_timed_out",
    });
    this.#ways.set(state, ways);
    return ways;
  }

  /** After what is true has changed: endpoints, the protocol; `judge`: who may be talked to, too. */
  update(judge: boolean): void {
    const isHttp1 = this.#group.upstream.part.http?.protocol === "http";
    const targets = [...this.#group.targets];
    for (const [state, ways] of this.#ways) {
      if (ways.version === (isHttp1 ? "h1" : "h2") && targets.some(({ pool }) => pool.has(state))) {
        if (judge) ways.rejudge();
        // It may be about to end, and closes what it keeps open.
        if (state.lastResort) ways.closeIdle();
        continue;
      }
      this.#ways.delete(state);
      ways.drain();
    }
  }

  drain(): void {
    for (const ways of this.#ways.values()) ways.drain();
    this.#ways.clear();
  }
}
