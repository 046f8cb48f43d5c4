/**
 * A listener at the edge of the mesh that leads to several upstreams: whoever may connect there may ask, and
 * the host of each request says where it goes.
 *
 * @module
 */

import { hostname } from "node:os";
import { compileChanges, type HeaderChanges, HostTable, ownNamesOf } from "../../http/mod.ts";
import type { EdgePart, HttpRules } from "../../snapshot/mod.ts";
import type { SharedLimiter } from "../core/admission.ts";
import { ListenerStats } from "../observe/connection_record.ts";
import type { Context } from "../core/context.ts";
import type { ConnectionService, Downstream, ListenerFacts } from "../caller/downstream.ts";
import type { HttpListener } from "../service/http_listener.ts";
import { HttpService } from "../service/http_service.ts";
import { HttpStats } from "../observe/http_stats.ts";
import { EITHER_VERSION, type RequestRoute } from "../upstream/request_pools.ts";
import type { ConnectionLimits } from "../core/live_connections.ts";
import type { RefusalReason } from "../observe/failure_summary.ts";

export interface EdgeListenerOptions {
  readonly places: SharedLimiter;
  readonly limits: ConnectionLimits;
  /** Of a declared upstream, by its key. */
  routeTo(upstream: string): RequestRoute | undefined;
}

/** Where requests for a host go. */
interface EdgeRoute {
  readonly upstream: string;
  readonly changes: Pick<RequestRoute, "changeRequest" | "ownNames" | "changeResponse">;
}

export class EdgeListener implements ListenerFacts {
  readonly direction = "outbound";
  readonly protocols = EITHER_VERSION;
  readonly context: Context;
  readonly stats: ListenerStats;
  readonly places: SharedLimiter;
  readonly limits: ConnectionLimits;
  readonly #http: HttpStats;
  readonly #routeTo: EdgeListenerOptions["routeTo"];
  #part: EdgePart;
  #hosts: HostTable<EdgeRoute>;

  constructor(context: Context, part: EdgePart, { places, limits, routeTo }: EdgeListenerOptions) {
    this.context = context;
    this.places = places;
    this.limits = limits;
    this.#routeTo = routeTo;
    this.#part = part;
    this.#hosts = this.#hostsOf(part);
    this.stats = new ListenerStats(context.stats, this.direction, part.id);
    this.#http = new HttpStats(context.stats, { direction: this.direction, listener: part.id });
  }

  /** True: its callers go by other credentials than before. */
  take(part: EdgePart): boolean {
    const before = this.#part;
    this.#part = part;
    if (part.version !== before.version) this.#hosts = this.#hostsOf(part);
    return part.listener?.credentials !== before.listener?.credentials;
  }

  get name(): string {
    return this.#part.id;
  }

  get destination(): string {
    return this.#part.id;
  }

  get tls(): ListenerFacts["tls"] {
    return this.#part.listener;
  }

  get http(): HttpRules {
    return this.#part.http;
  }

  get fault(): string {
    const { listener } = this.#part;
    return listener ? this.context.facts.trusts.fault(listener.credentials) : "";
  }

  whyFull(): RefusalReason {
    const { limit } = this.context.processLimit;
    return { code: "overloaded", reason: `the process holds ${limit} connections` };
  }

  serve(downstream: Downstream): ConnectionService {
    return new HttpService(downstream, this.httpListener);
  }

  get httpListener(): HttpListener {
    return {
      front: this,
      stats: this.#http,
      authorizer: "nobody",
      routeOf: ({ authority }) => {
        const host = this.#hosts.find(authority);
        const route = host && this.#routeTo(host.upstream);
        return route && { ...route, ...host.changes };
      },
      rules: () => this.http,
    };
  }

  #hostsOf({ hosts, bind: { port } }: EdgePart): HostTable<EdgeRoute> {
    const { clock } = this.context;
    const around = { hostname: hostname(), now: () => clock.now() };
    const compiled = (changes?: HeaderChanges) => changes && compileChanges(changes, around);
    return new HostTable(
      hosts.flatMap(({ names, upstream, requestHeaders, responseHeaders }) => {
        const changes = {
          changeRequest: compiled(requestHeaders),
          ownNames: requestHeaders && ownNamesOf(requestHeaders),
          changeResponse: compiled(responseHeaders),
        };
        return names.map((name) => [name, { upstream, changes }] as const);
      }),
      port,
    );
  }
}
