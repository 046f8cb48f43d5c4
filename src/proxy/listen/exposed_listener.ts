/**
 * A listener for one path of the local service, without TLS and intentions: what looks after health or
 * metrics is often no member of the mesh. It is for everybody, or for certain addresses alone. Its callers
 * have places of their own, so that they take none from the mesh.
 *
 * @module
 */

import { isLoopbackIp, peerIp } from "../../base/mod.ts";
import type { ExposedPart, HttpRules } from "../../snapshot/mod.ts";
import { ListenerStats } from "../observe/connection_record.ts";
import type { Context } from "../core/context.ts";
import type { ConnectionService, Downstream, ListenerFacts } from "../caller/downstream.ts";
import type { FairConnectionLimiter } from "../core/fair_limiters.ts";
import type { HttpListener } from "../service/http_listener.ts";
import { HttpService } from "../service/http_service.ts";
import { LocalRoute } from "../upstream/request_pools.ts";
import type { ConnectionLimits } from "../core/live_connections.ts";
import type { RefusalReason } from "../observe/failure_summary.ts";

/** Anybody may come and say nothing: for how long, and how long a request may take. */
const PATIENCE_MS = 60_000;

export class ExposedListener implements ListenerFacts {
  readonly direction = "inbound";
  readonly name: string;
  readonly tls = null;
  readonly fault = "";
  readonly protocols: readonly string[] = [];
  readonly context: Context;
  readonly stats: ListenerStats;
  readonly places: FairConnectionLimiter;
  readonly limits: ConnectionLimits;
  #part: ExposedPart;
  #isDeclared = true;
  readonly #requests: LocalRoute;

  constructor(
    context: Context,
    part: ExposedPart,
    options: {
      readonly name: string;
      readonly places: FairConnectionLimiter;
      readonly limits: ConnectionLimits;
    },
  ) {
    this.context = context;
    this.#part = part;
    this.name = options.name;
    this.places = options.places;
    const { idleTimeoutMs, lifetimeMs } = options.limits;
    this.limits = { idleTimeoutMs: Math.min(idleTimeoutMs || Infinity, PATIENCE_MS), lifetimeMs };
    this.stats = new ListenerStats(context.stats, this.direction, this.name);
    this.#requests = new LocalRoute(this);
  }

  get part(): ExposedPart {
    return this.#part;
  }

  get path(): string | undefined {
    return this.#isDeclared ? this.#part.path : undefined;
  }

  get http(): HttpRules {
    const { http } = this.#part;
    return { ...http, requestTimeoutMs: http.requestTimeoutMs || PATIENCE_MS };
  }

  /** Undefined: it is not declared any more. True: who is connected has to be judged again. */
  take(part: ExposedPart | undefined): boolean {
    const before = [this.path, this.callers].join();
    this.#isDeclared = part !== undefined;
    this.#part = part ?? this.#part;
    return [this.path, this.callers].join() !== before;
  }

  /** Who may call, for people; `""`: everybody. */
  get callers(): string {
    const { onlyFrom } = this.#part;
    return onlyFrom ? ["loopback", ...onlyFrom].join(" and ") : "";
  }

  barred(remote: string): RefusalReason | undefined {
    const { onlyFrom } = this.#part;
    if (!onlyFrom) return undefined;
    const ip = peerIp(remote);
    if (isLoopbackIp(ip) || onlyFrom.includes(ip)) return undefined;
    return { code: "source_denied", reason: `only ${this.callers} may call` };
  }

  get destination(): string {
    return this.context.facts.service;
  }

  whyFull(remote: string): RefusalReason {
    const { places, context: { processLimit: { limit } } } = this;
    const reason = places.full
      ? `${places.all.limit} connections to exposed paths are open`
      : places.hasShare(remote)
      ? `${places.share} connections to exposed paths are open from its address`
      : `the process holds ${limit} connections`;
    return { code: "overloaded", reason };
  }

  serve(downstream: Downstream): ConnectionService {
    return new HttpService(downstream, this.httpListener);
  }

  get httpListener(): HttpListener {
    const { stats, route } = this.#requests;
    return {
      front: this,
      routeOf: () => route,
      stats,
      authorizer: "nobody",
      exposed: this,
      rules: () => this.http,
    };
  }

  update(): void {
    this.#requests.ways.update();
  }

  /** Closes what is kept for requests to come. */
  end(): void {
    this.#requests.ways.drain();
  }
}
