/**
 * An upstream's listener: the local app connects here to reach another service, plainly or, at an edge of
 * the mesh, with TLS. Who is let in may go on, so a connection goes through `downstream.ts`, `attempt.ts`
 * and `l4.ts`.
 *
 * @module
 */

import type { Dial } from "../../net/mod.ts";
import type { SharedLimiter } from "../core/admission.ts";
import { Attempt, type AttemptHandler, type Connect } from "../upstream/attempt.ts";
import type { ListenerStats } from "../observe/connection_record.ts";
import type { Context } from "../core/context.ts";
import type { ConnectionService, Downstream, ListenerFacts } from "../caller/downstream.ts";
import { EndpointDial, type ProvenEndpoint } from "../upstream/endpoint_dial.ts";
import type { ConnectionLimits } from "../core/live_connections.ts";
import { type TcpDestination, TcpService } from "../service/tcp_service.ts";
import type { HttpListener } from "../service/http_listener.ts";
import { HttpService } from "../service/http_service.ts";
import { HttpStats } from "../observe/http_stats.ts";
import { EITHER_VERSION, EndpointPools, type RequestRoute } from "../upstream/request_pools.ts";
import type { RefusalReason } from "../observe/failure_summary.ts";
import { hashOfCaller, type TargetGroup } from "../upstream/target_group.ts";
import type { RouteTable, Upstream } from "../upstream/upstream.ts";

export class OutboundListener implements ListenerFacts, TcpDestination {
  readonly direction = "outbound";
  readonly authorizer = "nobody";
  readonly context: Context;
  readonly upstream: Upstream;
  /** Made where HTTP is spoken, so that its counts are there before there is something to count. */
  #http: HttpStats | undefined;
  /** Each is made when the first request comes. */
  readonly #ways = new Map<TargetGroup, EndpointPools>();
  #route: { readonly of: RouteTable; readonly route: RequestRoute } | undefined;

  constructor(context: Context, upstream: Upstream) {
    this.context = context;
    this.upstream = upstream;
    this.update(false);
  }

  get name(): string {
    return this.upstream.part.id;
  }

  get destination(): string {
    return this.upstream.part.name;
  }

  get stats(): ListenerStats {
    return this.upstream.stats;
  }

  /** With HTTP what is limited is connections to endpoints, whoever's requests they carry. */
  get places(): SharedLimiter {
    const { part, callers, connections } = this.upstream;
    return part.http ? callers : connections;
  }

  /** It is known that it was used lately. */
  isNoted = false;

  /** Connections are open, on one side or the other. */
  get isUsed(): boolean {
    const { callers, connections } = this.upstream;
    return callers.own > 0 || connections.own > 0;
  }

  /** It is not declared any more: whoever was on the way takes no place, and what is open goes on. */
  removed(): void {
    const { callers, connections } = this.upstream;
    callers.limit = connections.limit = 0;
    this.end();
  }

  /** Closes what is kept for requests to come. */
  end(): void {
    for (const ways of this.#ways.values()) ways.drain();
  }

  get limits(): ConnectionLimits {
    return this.upstream.part;
  }

  get tls(): ListenerFacts["tls"] {
    return this.upstream.part.listener;
  }

  get http(): ListenerFacts["http"] {
    return this.upstream.part.http;
  }

  get fault(): string {
    const { context: { facts: { trusts } }, upstream: { part } } = this;
    return (part.listener && trusts.fault(part.listener.credentials)) ||
      trusts.fault(part.credentials);
  }

  whyFull(): RefusalReason {
    const { limit, full } = this.context.processLimit;
    if (full) return { code: "overloaded", reason: `the process holds ${limit} connections` };
    const key = this.upstream.part.http ? "max_client_connections" : "max_connections";
    return { code: "limit_reached", reason: `limits.${key} is ${this.places.limit}` };
  }

  get protocols(): readonly string[] {
    return this.upstream.part.http ? EITHER_VERSION : [];
  }

  serve(downstream: Downstream): ConnectionService {
    const listener = this.httpListener;
    return listener ? new HttpService(downstream, listener) : new TcpService(downstream, this);
  }

  /** `undefined`: its connections carry bytes. */
  get httpListener(): HttpListener | undefined {
    const rules = this.upstream.part.http;
    if (!rules) return undefined;
    const { httpStats: stats } = this;
    return {
      front: this,
      routeOf: () => this.route,
      stats,
      authorizer: this.authorizer,
      rules: () => this.upstream.part.http ?? rules,
    };
  }

  /** Of now, for requests, whichever listener they came to. */
  get route(): RequestRoute {
    const of = this.upstream.ways;
    if (this.#route?.of === of) return this.#route.route;
    const waysOf = (name: string, resolver?: string) => {
      const group = of.pick(name, resolver);
      return group && this.#waysTo(group);
    };
    const hashOf = of.hashes ? (name: string) => of.hashOf(name) : undefined;
    const route = { waysOf, hashOf, plugins: this.name };
    this.#route = { of, route };
    return route;
  }

  #waysTo(group: TargetGroup): EndpointPools {
    let ways = this.#ways.get(group);
    if (ways) return ways;
    ways = new EndpointPools(this.context, group, this.httpStats);
    this.#ways.set(group, ways);
    return ways;
  }

  get httpStats(): HttpStats {
    return this.#http ??= new HttpStats(this.context.stats, {
      direction: this.direction,
      listener: this.name,
    });
  }

  /** Gives the names of its counts back. */
  forget(): void {
    this.stats.forget();
    this.#http?.forget();
  }

  /** See {@link EndpointPools.update}. */
  update(judge: boolean): void {
    if (this.upstream.part.http) this.httpStats.keepClusters(this.upstream.clusters);
    const groups = new Set(this.upstream.groups);
    for (const [group, ways] of this.#ways) {
      if (groups.has(group)) {
        ways.update(judge);
        continue;
      }
      this.#ways.delete(group);
      ways.drain();
    }
  }

  dial(dialler: AttemptHandler<ProvenEndpoint>, remote: string): Dial {
    const { context, upstream: { group } } = this;
    if (!group) {
      dialler.onFailed("no_endpoint", "its chain leads nowhere");
      return NOTHING;
    }
    const hash = group.needsHash ? hashOfCaller(remote) : undefined;
    const connect: Connect<ProvenEndpoint> = (lease, trust, endpointDialler) =>
      new EndpointDial(group, lease, endpointDialler, { context, trust, protocols: [] });
    const attempt = new Attempt(group, dialler, { context, hash, connect });
    attempt.start();
    return attempt;
  }
}

const NOTHING: Dial = { cancel: () => {} };
