/** The connection pools for the requests of a listener. @module */

import type { EndpointState } from "../../balance/mod.ts";
import { formatAddress } from "../../base/mod.ts";
import type { HashPolicy } from "../../chain/mod.ts";
import type { ChangeFields } from "../../http/mod.ts";
import type { Dial } from "../../net/mod.ts";
import type { Endpoint, Target } from "../../plugin/mod.ts";
import { Attempt, type AttemptHandler } from "./attempt.ts";
import type { UpstreamContext } from "../core/context.ts";
import type { ListenerFacts } from "../caller/session.ts";
import { dialLocal, EndpointDial, trustOf } from "./endpoint_dial.ts";
import { FairRequestLimiter } from "../core/admission.ts";
import { LOCAL_CLUSTER } from "../observe/listener_stats.ts";
import type { HttpRules, InboundPart } from "../../snapshot/mod.ts";
import { silenceProbe } from "./probes.ts";
import type { Lease, TargetGroup } from "./target_group.ts";
import { type HttpPoolStats, HttpStats } from "../observe/http_stats.ts";
import { ConnectionPool, NO_DIAL, type PooledConnection } from "./connection_pool.ts";

/** ALPN protocols, most preferred first. */
export const EITHER_VERSION: readonly string[] = ["h2", "http/1.1"];
export const HTTP1_ONLY: readonly string[] = ["http/1.1"];
const HTTP2_ONLY: readonly string[] = ["h2"];

export interface EndpointCount {
  readonly known: number;
  readonly usable: number;
}

export interface RequestPool {
  /** Envoy's cluster name, for the access log. */
  readonly cluster: string;
  /** Takes a place, which the same caller leaves once. False: none is free. `caller`: key of its account; `""`: none. */
  enter(caller: string): boolean;
  leave(caller: string): void;
  /** Why {@link RequestPool.enter} just returned false. */
  whyFull(): string;
  /** For plugins that call it: how many endpoints it has, and how many of them are neither ejected nor failing. */
  endpoints(): EndpointCount;
  /** Gives a connection, which is used at once, and its lease, if any. `avoid` is picked only if there is no other. */
  acquire(
    handler: AttemptHandler<PooledConnection>,
    hash: number | undefined,
    avoid?: readonly Endpoint[],
  ): Dial;
}

export type ChosenPool =
  | {
    readonly kind: "pool";
    readonly pool: RequestPool;
    readonly hash: readonly HashPolicy[] | undefined;
  }
  /** `reason`: in words that follow the target. */
  | { readonly kind: "none"; readonly reason: string };

/** Where the requests of a listener go, and the changes to requests and responses. */
export interface RequestRoute {
  /** Called once for a request. `resolver`: of the split that was picked already. `undefined`: there is no such route. */
  poolFor(route: string, resolver?: string): RequestPool | undefined;
  /** The hash policies of a route; absent: no route has any. */
  readonly hashFor?: ((route: string) => readonly HashPolicy[] | undefined) | undefined;
  /** The pool of a target that a plugin chose for a request on that route; absent: there is no choice. */
  readonly poolAt?: ((target: Target, route: string) => ChosenPool) | undefined;
  /** The listener whose plugins run, if it is not the one that accepted the request. */
  readonly plugins?: string;
  readonly changeRequest?: ChangeFields | undefined;
  /** Names of the request fields that the route changes. */
  readonly ownNames?: readonly string[] | undefined;
  readonly changeResponse?: ChangeFields | undefined;
}

/** Concurrent requests to the local application, and requests that wait for a connection; Envoy's defaults. */
const LOCAL_LIMIT = 1_024;
const FULL = `the local application is given ${LOCAL_LIMIT} requests at once`;
const OWN_SHARE = `${FULL}, and the last places are kept for other callers`;
const ONE_ENDPOINT: EndpointCount = { known: 1, usable: 1 };
const NONE: ReadonlySet<EndpointState> = new Set();
const NOBODY: readonly Endpoint[] = [];

/** The local application behind a listener; the snapshot part may change. */
export interface LocalApplication {
  readonly part: Pick<InboundPart, "local" | "localConnectTimeoutMs"> & {
    readonly http: Pick<HttpRules, "protocol"> | null;
  };
  readonly context: UpstreamContext;
}

export class LocalPool implements RequestPool {
  readonly cluster = LOCAL_CLUSTER;
  readonly #local: LocalApplication;
  readonly #stats: HttpPoolStats;
  #pool: ConnectionPool;
  #to: string;
  readonly #places = new FairRequestLimiter(LOCAL_LIMIT);

  constructor(local: LocalApplication, stats: HttpPoolStats) {
    this.#local = local;
    this.#stats = stats;
    this.#to = this.#target;
    this.#pool = this.#make();
  }

  /** Connections are replaced when this changes. */
  get #target(): string {
    const { local, http } = this.#local.part;
    return JSON.stringify([local, http?.protocol]);
  }

  #make(): ConnectionPool {
    const { part, context } = this.#local;
    return new ConnectionPool({
      dial: (handler) => {
        const { localConnectTimeoutMs: timeoutMs } = this.#local.part;
        return dialLocal(part.local, handler, { context, timeoutMs });
      },
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

  endpoints(): EndpointCount {
    return ONE_ENDPOINT;
  }

  acquire(handler: AttemptHandler<PooledConnection>): Dial {
    return this.#pool.acquire(handler);
  }

  /** Called when the snapshot part may have changed. */
  update(): void {
    const to = this.#target;
    if (to === this.#to) return;
    this.#to = to;
    this.drain();
  }

  /** Closes idle connections; open ones carry no new requests. */
  drain(): void {
    this.#pool.drain();
    this.#pool = this.#make();
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

export function protocolsTo({ upstream: { part } }: TargetGroup): readonly string[] {
  return part.http?.protocol === "http" ? HTTP1_ONLY : HTTP2_ONLY;
}

export class EndpointPools implements RequestPool {
  readonly #context: UpstreamContext;
  readonly #group: TargetGroup;
  readonly #stats: HttpStats;
  readonly #pools = new Map<EndpointState, ConnectionPool>();

  constructor(context: UpstreamContext, group: TargetGroup, stats: HttpStats) {
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

  endpoints(): EndpointCount {
    const nowMs = this.#context.clock.monotonic();
    const all = [...this.#group.targets].flatMap(({ pool }) => pool.views(nowMs));
    const usable = all.filter(({ ejectedForMs, lastResort }) => ejectedForMs === 0 && !lastResort);
    return { known: all.length, usable: usable.length };
  }

  acquire(
    handler: AttemptHandler<PooledConnection>,
    hash: number | undefined,
    addresses: readonly Endpoint[] = NOBODY,
  ): Dial {
    const { clock } = this.#context;
    const group = this.#group;
    const avoid = addresses.length > 0 ? this.#knownAt(addresses) : undefined;
    let lease: Lease | undefined;
    // Most requests find a connection here, without an allocation.
    if (trustOf(group, this.#context)?.fault(clock.now()) === undefined) {
      lease = group.pick(clock.monotonic(), { hash, exclude: NONE, avoid, perTarget: 1 });
      const connection = lease && this.#pools.get(lease.state)?.ready();
      if (connection) {
        handler.onDialled(connection, lease);
        return NO_DIAL;
      }
    }
    const attempt = new Attempt<PooledConnection>(group, handler, {
      context: this.#context,
      hash,
      avoid,
      // A second pick would advance the balancer: of two endpoints, one would be skipped every time.
      first: lease,
      connect: (lease, _trust, endpointDialler) => this.#to(lease).acquire(endpointDialler),
    });
    attempt.start();
    return attempt;
  }

  /** Endpoints in `avoid` were tried before. */
  #knownAt(addresses: readonly Endpoint[]): Set<EndpointState> {
    const known = new Set<EndpointState>();
    for (const state of this.#pools.keys()) {
      const own = formatAddress({ kind: "tcp", ...state.endpoint });
      if (addresses.some(({ address }) => address === own)) known.add(state);
    }
    return known;
  }

  #to({ target, state }: Lease): ConnectionPool {
    let pool = this.#pools.get(state);
    if (pool) return pool;
    const context = this.#context;
    const group = this.#group;
    const protocols = protocolsTo(group);
    const probe = silenceProbe(group, { target, state }, {
      context,
      protocols,
      onHung: (reason) => this.#pools.get(state)?.reset(reason),
    });
    pool = new ConnectionPool({
      onSilent: probe,
      dial: (handler) => {
        const trust = trustOf(group, context);
        if (!trust) {
          handler.onFailed("not_ready", "no certificate yet");
          return NO_DIAL;
        }
        // A connection is not counted as use of the endpoint; requests are.
        return new EndpointDial(group, { target, state }, handler, { context, trust, protocols });
      },
      version: protocols === HTTP1_ONLY ? "h1" : "h2",
      context,
      stats: this.#stats.of(target.cluster).pool,
      connections: group.upstream.connections,
      timedOut: "endpoint_timed_out",
    });
    this.#pools.set(state, pool);
    return pool;
  }

  /** Called after endpoints or the protocol changed; `judge`: trust may have changed as well. */
  update(judge: boolean): void {
    const isHttp1 = this.#group.upstream.part.http?.protocol === "http";
    const targets = [...this.#group.targets];
    for (const [state, pool] of this.#pools) {
      if (pool.version === (isHttp1 ? "h1" : "h2") && targets.some(({ pool }) => pool.has(state))) {
        if (judge) pool.rejudge();
        // The endpoint may be shutting down, and waits for open connections.
        if (state.lastResort) pool.closeIdle();
        continue;
      }
      this.#pools.delete(state);
      pool.drain();
    }
  }

  drain(): void {
    for (const pool of this.#pools.values()) pool.drain();
    this.#pools.clear();
  }
}
