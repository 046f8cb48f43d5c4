/** The listener of an upstream; without an address, edges and plugins lead to it. @module */

import type { BindAddress } from "../../base/mod.ts";
import { DEFAULT_ROUTE } from "../../chain/mod.ts";
import type { CallerKind, Dial } from "../../net/mod.ts";
import type { Target } from "../../plugin/mod.ts";
import type { Snapshot, UpstreamPart } from "../../snapshot/mod.ts";
import type { ListenerFacts } from "../caller/session.ts";
import { MAX_UPSTREAMS, type SharedLimiter } from "../core/admission.ts";
import type { ConnectionLimits } from "../core/live_connections.ts";
import type { ReachedLimit } from "../observe/failure_summary.ts";
import { HttpStats } from "../observe/http_stats.ts";
import { ListenerStats } from "../observe/listener_stats.ts";
import { ExchangeObservers } from "../observe/observers.ts";
import type { HttpListener } from "../service/stages.ts";
import type { TcpDestination } from "../service/tcp_service.ts";
import { Attempt, type AttemptHandler, type Connect } from "../upstream/attempt.ts";
import { NO_DIAL } from "../upstream/connection_pool.ts";
import { EndpointDial, type ProvenEndpoint } from "../upstream/endpoint_dial.ts";
import {
  type ChosenPool,
  EITHER_VERSION,
  EndpointPools,
  type RequestRoute,
} from "../upstream/request_pools.ts";
import { hashOfCaller, type TargetGroup } from "../upstream/target_group.ts";
import { type RouteTable, Upstream } from "../upstream/upstream.ts";
import {
  type ListenerEnvironment,
  type ListenerKind,
  ServedListener,
  type UpstreamListener,
} from "./listener.ts";

export const UPSTREAM: ListenerKind = {
  name: "upstream",
  declared: ({ upstreams }) => Object.keys(upstreams),
  whyNot(name, { columnOf }) {
    if (columnOf(name) !== undefined) return undefined;
    // Opened without a column, the limits of the others would be wrong.
    return `Cannot open upstream ${name}: ${MAX_UPSTREAMS} are declared, or have connections that are ` +
      "still open; declare fewer";
  },
  make(name, snapshot, environment) {
    const { context, columnOf, limiter, random } = environment;
    const part = snapshot.upstreams[name];
    const column = columnOf(name);
    if (!part || column === undefined) throw new TypeError(`no upstream ${name}`);
    const upstream = new Upstream(part, {
      stats: new ListenerStats(context.stats, "outbound", name),
      connections: limiter(column, part.maxConnections),
      pending: limiter(column + 1, part.maxPending),
      requests: limiter(column + 2, part.maxRequests),
      callers: limiter(column + 3, part.maxClientConnections ?? Infinity),
      random,
    });
    const listener = new OutboundListener(environment, upstream);
    upstream.update(part, snapshot);
    return listener;
  },
};

export class OutboundListener extends ServedListener<UpstreamPart>
  implements TcpDestination, UpstreamListener {
  readonly kind = "upstream";
  /** The control thread knows that it was used lately. */
  isNoted = false;
  override readonly upstream: Upstream;
  readonly #environment: ListenerEnvironment;
  /** Made if the listener speaks HTTP, so that its metrics exist before the first request. */
  #http: HttpListener | undefined;
  /** Made when the first request comes. */
  readonly #pools = new Map<TargetGroup, EndpointPools>();
  #route: { readonly of: RouteTable; readonly route: RequestRoute } | undefined;
  /** Ids of other upstreams that its plugins have chosen. */
  readonly #others = new Set<string>();

  constructor(environment: ListenerEnvironment, upstream: Upstream) {
    super(upstream.part.id, "outbound", environment.context, upstream.stats);
    this.upstream = upstream;
    this.#environment = environment;
    this.update(false);
  }

  get part(): UpstreamPart {
    return this.upstream.part;
  }

  take(snapshot: Snapshot): boolean {
    const part = snapshot.upstreams[this.name];
    if (!part) return false;
    const { credentials, listener } = this.part;
    this.upstream.update(part, snapshot);
    return part.credentials !== credentials ||
      part.listener?.credentials !== listener?.credentials;
  }

  /** Workers cannot share a unix socket: the first one serves it. */
  override get bind(): BindAddress | null {
    const { bind } = this.part;
    return bind?.kind === "unix" && this.#environment.worker > 0 ? null : bind;
  }

  override get callers(): CallerKind {
    return this.tls ? "strangers" : "own";
  }

  override get destination(): string {
    return this.part.name;
  }

  /** With HTTP the limit on connections is about those to endpoints, whichever requests they carry. */
  get places(): SharedLimiter {
    const { part, callers, connections } = this.upstream;
    return part.http ? callers : connections;
  }

  override get isUsed(): boolean {
    const { callers, connections } = this.upstream;
    return callers.own > 0 || connections.own > 0;
  }

  /** A caller in its handshake gets no place; open connections stay. */
  override removed(): void {
    const { callers, connections } = this.upstream;
    callers.limit = connections.limit = 0;
    this.end();
  }

  override end(): void {
    for (const pools of this.#pools.values()) pools.drain();
  }

  get limits(): ConnectionLimits {
    return this.part;
  }

  get tls(): ListenerFacts["tls"] {
    return this.part.listener;
  }

  get fault(): string {
    const { part, context: { facts: { trusts } } } = this;
    return (part.listener && trusts.fault(part.listener.credentials)) ||
      trusts.fault(part.credentials);
  }

  override whyFull(remote: string): ReachedLimit {
    if (this.context.processLimit.full) return super.whyFull(remote);
    const key = this.part.http ? "max_client_connections" : "max_connections";
    const reason = `limits.${key} is ${this.places.limit}`;
    return { code: "limit_reached", reason, limit: "listener" };
  }

  get protocols(): readonly string[] {
    return this.part.http ? EITHER_VERSION : [];
  }

  get httpListener(): HttpListener | undefined {
    return this.part.http ? this.#serveHttp() : undefined;
  }

  #serveHttp(): HttpListener {
    if (this.#http) return this.#http;
    const speaksGrpc = () => this.part.http?.protocol === "grpc";
    const owner = { direction: this.direction, listener: this.name, speaksGrpc };
    const stats = new HttpStats(this.context.stats, owner);
    let last = this.part.http;
    return this.#http = {
      facts: this,
      stats,
      observers: new ExchangeObservers(stats, this.context),
      routeOf: () => this.route,
      rules: () => {
        // A session outlives a change to TCP, and keeps the rules that it began with.
        last = this.part.http ?? last;
        if (!last) throw new TypeError(`upstream ${this.name} speaks no HTTP`);
        return last;
      },
    };
  }

  /** Route of requests, whichever listener they came to. */
  get route(): RequestRoute {
    const of = this.upstream.routes;
    if (this.#route?.of === of) return this.#route.route;
    const route: RequestRoute = {
      poolFor: (name, resolver) => {
        const group = of.groupFor(name, resolver);
        return group && this.#poolsOf(group);
      },
      poolAt: (target, name) => this.#poolAt(target, name),
      hashFor: of.hashes ? (name) => of.hashFor(name) : undefined,
      plugins: this.name,
    };
    this.#route = { of, route };
    return route;
  }

  /** The pool of a target that a plugin chose for a request on that route of this upstream. */
  #poolAt({ upstream: name, ...target }: Target, route: string): ChosenPool {
    if (name === undefined) {
      const chosen = this.upstream.chosenGroup(target);
      if (chosen.kind === "none") return chosen;
      const hash = this.upstream.routes.hashFor(route);
      return { kind: "pool", pool: this.#poolsOf(chosen.group), hash };
    }
    const all = this.#environment.upstreamsNamed(name);
    const reason = whyNoOther(this.part, all.map(({ part }) => part));
    const [other] = all;
    if (!other || reason) return { kind: "none", reason };
    this.#others.add(other.part.id);
    const isWhole = Object.values(target).every((value) => value === undefined);
    if (!isWhole) return other.route.poolAt?.(target, DEFAULT_ROUTE) ?? LEADS_NOWHERE;
    const pool = other.route.poolFor(DEFAULT_ROUTE);
    if (!pool) return LEADS_NOWHERE;
    return { kind: "pool", pool, hash: other.route.hashFor?.(DEFAULT_ROUTE) };
  }

  /** The clusters of this upstream, and those of others that its plugins have chosen. */
  get #clusters(): ReadonlySet<string> {
    const clusters = new Set(this.upstream.clusters);
    for (const id of this.#others) {
      const [other] = this.#environment.upstreamsNamed(id);
      if (!other) this.#others.delete(id);
      for (const cluster of other?.upstream.clusters ?? []) clusters.add(cluster);
    }
    return clusters;
  }

  #poolsOf(group: TargetGroup): EndpointPools {
    let pools = this.#pools.get(group);
    if (pools) return pools;
    pools = new EndpointPools(this.context, group, this.#serveHttp().stats);
    this.#pools.set(group, pools);
    return pools;
  }

  override forget(): void {
    this.stats.forget();
    this.#http?.stats.forget();
  }

  override update(judge: boolean): void {
    if (this.part.http) this.#serveHttp().stats.keepClusters(this.#clusters);
    const groups = new Set(this.upstream.groups);
    for (const [group, pools] of this.#pools) {
      if (groups.has(group)) {
        pools.update(judge);
        continue;
      }
      this.#pools.delete(group);
      pools.drain();
    }
  }

  protected override get tcp(): TcpDestination {
    return this;
  }

  dial(handler: AttemptHandler<ProvenEndpoint>, remote: string): Dial {
    const { context } = this;
    const { group } = this.upstream;
    if (!group) {
      handler.onFailed("no_endpoint", "its chain leads nowhere");
      return NO_DIAL;
    }
    const hash = group.needsHash ? hashOfCaller(remote) : undefined;
    const connect: Connect<ProvenEndpoint> = (lease, trust, endpointHandler) =>
      new EndpointDial(group, lease, endpointHandler, { context, trust, protocols: [] });
    const attempt = new Attempt(group, handler, { context, hash, connect });
    attempt.start();
    return attempt;
  }
}

const LEADS_NOWHERE: ChosenPool = { kind: "none", reason: "leads nowhere" };

/** Why a request of `own` cannot go to the upstream of that name; `""`: it can. */
function whyNoOther(own: UpstreamPart, named: readonly UpstreamPart[]): string {
  const [part] = named;
  if (!part) return "is no upstream of this proxy";
  if (named.length > 1) return `may be each of ${named.map(({ id }) => id).join(", ")}`;
  if (!part.http) return "carries bytes; its protocol has to be http, http2 or grpc";
  const isHttp1 = part.http.protocol === "http" && own.http?.protocol !== "http";
  return isHttp1 ? `speaks HTTP/1.1, and ${own.name} HTTP/2` : "";
}
