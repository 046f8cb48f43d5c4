/** The public listener: mutual TLS from sidecars, to the local service, by intentions. @module */

import type { Dial } from "../../net/mod.ts";
import type { HttpRules, InboundPart, Snapshot } from "../../snapshot/mod.ts";
import type { AuthorizeMode } from "../caller/session.ts";
import { INBOUND_COLUMN, type SharedLimiter } from "../core/admission.ts";
import type { ConnectionLimits } from "../core/live_connections.ts";
import { type ClusterStats, LOCAL_CLUSTER } from "../observe/listener_stats.ts";
import type { ReachedLimit } from "../observe/failure_summary.ts";
import { ExchangeObservers } from "../observe/observers.ts";
import type { HttpListener } from "../service/stages.ts";
import type { TcpDestination } from "../service/tcp_service.ts";
import type { AttemptHandler } from "../upstream/attempt.ts";
import { dialLocal, type LocalEndpoint } from "../upstream/endpoint_dial.ts";
import { EITHER_VERSION, HTTP1_ONLY, LocalRoute } from "../upstream/request_pools.ts";
import {
  type ConnectionShares,
  type ListenerEnvironment,
  type ListenerKind,
  ServedListener,
} from "./listener.ts";
import { tokensOf } from "./listener_plugins.ts";

export const INBOUND: ListenerKind = {
  name: "inbound",
  declared: ({ inbound }) => Object.keys(inbound),
  make(name, { inbound }, environment) {
    const part = inbound[name];
    if (!part) throw new TypeError(`no inbound listener ${name}`);
    return new InboundListener(name, part, environment);
  },
};

interface InboundHttp {
  readonly route: LocalRoute;
  readonly listener: HttpListener;
}

export class InboundListener extends ServedListener<InboundPart> implements TcpDestination {
  readonly kind = "inbound";
  readonly places: SharedLimiter;
  readonly limits: ConnectionLimits;
  part: InboundPart;
  /** Made if the listener speaks HTTP, so that its metrics exist before the first request. */
  #http: InboundHttp | undefined;

  constructor(name: string, part: InboundPart, environment: ListenerEnvironment) {
    super(name, "inbound", environment.context);
    this.part = part;
    this.places = environment.limiter(INBOUND_COLUMN, 0);
    this.limits = environment.limits;
    this.update();
  }

  take({ inbound }: Snapshot): boolean {
    const part = inbound[this.name];
    if (!part) return false;
    const isOther = part.credentials !== this.part.credentials;
    this.part = part;
    return isOther;
  }

  /** All inbound listeners count in one column, so the limit of one bounds their sum. */
  override setShare({ inbound }: ConnectionShares): void {
    this.places.limit = Math.min(this.part.maxConnections || Infinity, inbound);
  }

  get tls(): InboundPart {
    return this.part;
  }

  get fault(): string {
    return this.context.facts.trusts.fault(this.part.credentials);
  }

  override get authorizeMode(): AuthorizeMode {
    return this.part.authorize;
  }

  get localStats(): ClusterStats | undefined {
    return this.part.http ? undefined : this.stats.of(LOCAL_CLUSTER);
  }

  override whyFull(remote: string): ReachedLimit {
    const { places, context } = this;
    if (!places.full) return super.whyFull(remote);
    const reason = this.part.maxConnections === places.limit
      ? `max_inbound_connections is ${places.limit}`
      : `${places.limit} of ${context.processLimit.limit} connections are inbound; the rest is kept for upstreams`;
    return { code: "overloaded", reason, limit: "listener" };
  }

  get protocols(): readonly string[] {
    if (!this.http) return [];
    return this.http.protocol === "http" ? HTTP1_ONLY : EITHER_VERSION;
  }

  get httpListener(): HttpListener | undefined {
    return this.http ? this.#serveHttp(this.http).listener : undefined;
  }

  #serveHttp(first: HttpRules): InboundHttp {
    if (this.#http) return this.#http;
    // A session outlives a change to TCP, and keeps the rules that it began with.
    let last = first;
    const rules = () => last = this.part.http ?? last;
    const route = new LocalRoute(this, () => rules().protocol === "grpc");
    const { stats } = route;
    const listener: HttpListener = {
      facts: this,
      stats,
      observers: new ExchangeObservers(stats, this.context),
      tokens: tokensOf(this.name),
      routeOf: () => route.route,
      rules,
    };
    return this.#http = { route, listener };
  }

  override update(): void {
    const { http } = this.part;
    // Metrics exist before there is something to count.
    if (http) this.#serveHttp(http);
    else void this.localStats;
    this.#http?.route.pool.update();
  }

  override end(): void {
    this.#http?.route.pool.drain();
  }

  protected override get tcp(): TcpDestination {
    return this;
  }

  dial(handler: AttemptHandler<LocalEndpoint>): Dial {
    const { local, localConnectTimeoutMs: timeoutMs } = this.part;
    return dialLocal(local, handler, { context: this.context, timeoutMs });
  }
}
