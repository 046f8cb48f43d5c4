/** A listener for one path of the local service, for callers that are not in the mesh. @module */

import { isLoopbackIp, peerIp } from "../../base/mod.ts";
import type { ExposedPart, HttpRules, Snapshot } from "../../snapshot/mod.ts";
import type { ExposedPathRule } from "../caller/authorize.ts";
import type { FairConnectionLimiter } from "../core/admission.ts";
import type { ConnectionLimits } from "../core/live_connections.ts";
import type { ReachedLimit, RefusalReason } from "../observe/failure_summary.ts";
import { ExchangeObservers } from "../observe/observers.ts";
import type { HttpListener } from "../service/stages.ts";
import { LocalRoute } from "../upstream/request_pools.ts";
import {
  type ConnectionShares,
  type ListenerEnvironment,
  type ListenerKind,
  ServedListener,
} from "./listener.ts";

/** Any host may connect and send nothing: the idle time of a connection, and the time of a request. */
const PATIENCE_MS = 60_000;

export const EXPOSED: ListenerKind = {
  name: "exposed",
  declared: ({ exposed }) => Object.keys(exposed),
  make(name, { exposed }, environment) {
    const part = exposed[name];
    if (!part) throw new TypeError(`no exposed path ${name}`);
    return new ExposedListener(name, part, environment);
  },
};

export class ExposedListener extends ServedListener<ExposedPart> implements ExposedPathRule {
  readonly kind = "exposed";
  readonly tls = null;
  readonly fault = "";
  readonly protocols: readonly string[] = [];
  readonly places: FairConnectionLimiter;
  readonly limits: ConnectionLimits;
  readonly httpListener: HttpListener;
  readonly #route: LocalRoute;
  part: ExposedPart;
  #isDeclared = true;

  constructor(name: string, part: ExposedPart, environment: ListenerEnvironment) {
    super(name, "inbound", environment.context);
    this.part = part;
    this.places = environment.exposedPlaces;
    const { idleTimeoutMs, lifetimeMs } = environment.limits;
    this.limits = { idleTimeoutMs: Math.min(idleTimeoutMs || Infinity, PATIENCE_MS), lifetimeMs };
    this.#route = new LocalRoute(this, () => this.part.http.protocol === "grpc");
    const { stats, route } = this.#route;
    this.httpListener = {
      facts: this,
      exposed: this,
      stats,
      observers: new ExchangeObservers(stats, this.context),
      routeOf: () => route,
      rules: () => this.http,
    };
  }

  get path(): string | undefined {
    return this.#isDeclared ? this.part.path : undefined;
  }

  override get http(): HttpRules {
    const { http } = this.part;
    return { ...http, requestTimeoutMs: http.requestTimeoutMs || PATIENCE_MS };
  }

  take({ exposed }: Snapshot): boolean {
    const part = exposed[this.name];
    const before = [this.path, this.allowedAddresses].join();
    this.#isDeclared = part !== undefined;
    this.part = part ?? this.part;
    return [this.path, this.allowedAddresses].join() !== before;
  }

  override setShare({ exposed }: ConnectionShares): void {
    this.places.all.limit = exposed;
  }

  override get allowedAddresses(): string {
    const { onlyFrom } = this.part;
    return onlyFrom ? ["loopback", ...onlyFrom].join(" and ") : "";
  }

  barred(remote: string): RefusalReason | undefined {
    const { onlyFrom } = this.part;
    if (!onlyFrom) return undefined;
    const ip = peerIp(remote);
    if (isLoopbackIp(ip) || onlyFrom.includes(ip)) return undefined;
    return { code: "source_denied", reason: `only ${this.allowedAddresses} may call` };
  }

  override whyFull(remote: string): ReachedLimit {
    const { places } = this;
    if (!places.full && !places.hasShare(remote)) return super.whyFull(remote);
    const reason = places.full
      ? `${places.all.limit} connections to exposed paths are open`
      : `${places.share} connections to exposed paths are open from its address`;
    return { code: "overloaded", reason, limit: "listener" };
  }

  override update(): void {
    this.#route.pool.update();
  }

  override end(): void {
    this.#route.pool.drain();
  }
}
