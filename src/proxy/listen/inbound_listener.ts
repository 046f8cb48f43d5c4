/**
 * A listener for callers of the service: other sidecars connect here to reach the local service. Its callers prove who they
 * are and the intentions decide about them, so a connection goes through `downstream.ts`, `authorize.ts`,
 * `local_dial.ts` and `l4.ts`.
 *
 * @module
 */

import type { Dial } from "../../net/mod.ts";
import type { InboundPart } from "../../snapshot/mod.ts";
import type { SharedLimiter } from "../core/admission.ts";
import type { AttemptHandler } from "../upstream/attempt.ts";
import type { AuthorizeMode } from "../caller/authorize.ts";
import { type ClusterStats, LOCAL_CLUSTER } from "../observe/cluster_stats.ts";
import { ListenerStats } from "../observe/connection_record.ts";
import type { Context } from "../core/context.ts";
import type { ConnectionService, Downstream, ListenerFacts } from "../caller/downstream.ts";
import type { ConnectionLimits } from "../core/live_connections.ts";
import { type TcpDestination, TcpService } from "../service/tcp_service.ts";
import type { HttpListener } from "../service/http_listener.ts";
import { HttpService } from "../service/http_service.ts";
import { EITHER_VERSION, HTTP1_ONLY, LocalRoute } from "../upstream/request_pools.ts";
import { tokensOf } from "./listener_plugins.ts";
import { dialLocal, type LocalEndpoint } from "../upstream/local_dial.ts";
import type { RefusalReason } from "../observe/failure_summary.ts";

export class InboundListener implements ListenerFacts, TcpDestination {
  readonly direction = "inbound";
  readonly name: string;
  part: InboundPart;
  readonly context: Context;
  readonly stats: ListenerStats;
  readonly places: SharedLimiter;
  readonly limits: ConnectionLimits;
  readonly #tokens: string;
  /** Made where HTTP is spoken, so that its counts are there before there is something to count. */
  #requests: LocalRoute | undefined;

  constructor(
    context: Context,
    part: InboundPart,
    options: {
      readonly name: string;
      readonly places: SharedLimiter;
      readonly limits: ConnectionLimits;
    },
  ) {
    this.context = context;
    this.part = part;
    this.name = options.name;
    this.#tokens = tokensOf(options.name);
    this.places = options.places;
    this.limits = options.limits;
    this.stats = new ListenerStats(context.stats, this.direction, this.name);
    this.update();
  }

  get destination(): string {
    return this.context.facts.service;
  }

  get tls(): InboundPart {
    return this.part;
  }

  get http(): InboundPart["http"] {
    return this.part.http;
  }

  get fault(): string {
    return this.context.facts.trusts.fault(this.part.credentials);
  }

  get localStats(): ClusterStats | undefined {
    return this.part.http ? undefined : this.stats.of(LOCAL_CLUSTER);
  }

  get authorizer(): AuthorizeMode {
    return this.part.authorize;
  }

  whyFull(): RefusalReason {
    const { places, part, context: { processLimit: { limit } } } = this;
    const reason = !places.full
      ? `the process holds ${limit} connections`
      : part.maxConnections === places.limit
      ? `max_inbound_connections is ${places.limit}`
      : `${places.limit} of ${limit} connections are inbound; the rest is kept for upstreams`;
    return { code: "overloaded", reason };
  }

  get protocols(): readonly string[] {
    const { http } = this.part;
    if (!http) return [];
    return http.protocol === "http" ? HTTP1_ONLY : EITHER_VERSION;
  }

  serve(downstream: Downstream): ConnectionService {
    const listener = this.httpListener;
    return listener ? new HttpService(downstream, listener) : new TcpService(downstream, this);
  }

  /** `undefined`: its connections carry bytes. */
  get httpListener(): HttpListener | undefined {
    const { http } = this.part;
    if (!http) return undefined;
    const { stats, route } = this.#requests ??= new LocalRoute(this);
    return {
      front: this,
      routeOf: () => route,
      stats,
      authorizer: this.authorizer,
      tokens: this.#tokens,
      rules: () => this.part.http ?? http,
    };
  }

  /** After its part may have changed. */
  update(): void {
    // Made now, so that counts are there before there is something to count.
    void this.localStats;
    if (this.part.http) this.#requests ??= new LocalRoute(this);
    this.#requests?.ways.update();
  }

  /** Closes what is kept for requests to come. */
  end(): void {
    this.#requests?.ways.drain();
  }

  dial(dialler: AttemptHandler<LocalEndpoint>): Dial {
    const { local, localConnectTimeoutMs: timeoutMs } = this.part;
    return dialLocal(local, dialler, { context: this.context, timeoutMs });
  }
}
