/** The common part of all listeners. A kind is one file and a row in `listeners.ts`. @module */

import type { Address, BindAddress, Random } from "../../base/mod.ts";
import type { CallerKind } from "../../net/mod.ts";
import type { HttpRules, Snapshot, UpstreamPart } from "../../snapshot/mod.ts";
import type { AuthorizeMode, ListenerFacts, Session, SessionService } from "../caller/session.ts";
import type { ConnectionLimiter, FairConnectionLimiter, SharedLimiter } from "../core/admission.ts";
import type { Context } from "../core/context.ts";
import type { ConnectionLimits } from "../core/live_connections.ts";
import type { ReachedLimit } from "../observe/failure_summary.ts";
import { ListenerStats } from "../observe/listener_stats.ts";
import { ConnectionObservers } from "../observe/observers.ts";
import type { HttpListener } from "../service/stages.ts";
import { HttpService } from "../service/http_service.ts";
import { type TcpDestination, TcpService } from "../service/tcp_service.ts";
import type { RequestRoute } from "../upstream/request_pools.ts";
import type { Upstream } from "../upstream/upstream.ts";

export interface ListenerEnvironment {
  readonly context: Context;
  /** For listeners without limits of their own. */
  readonly limits: ConnectionLimits;
  readonly random: Random;
  readonly worker: number;
  /** Shared by all exposed paths. */
  readonly exposedPlaces: FairConnectionLimiter;
  limiter(column: number, limit: number): SharedLimiter;
  /** First column of an upstream in the shared counts; `undefined`: it has none. */
  columnOf(upstream: string): number | undefined;
  routeTo(upstream: string): RequestRoute | undefined;
  /** Upstreams of that id, else those of that name. */
  upstreamsNamed(name: string): readonly UpstreamListener[];
}

/** An upstream as others see it, whose plugins may choose it. */
export interface UpstreamListener {
  readonly part: UpstreamPart;
  readonly route: RequestRoute;
  readonly upstream: Upstream;
}

/** How the connections of the process are divided among kinds. */
export interface ConnectionShares {
  readonly process: number;
  readonly inbound: number;
  readonly exposed: number;
}

export interface ListenerKind {
  readonly name: "inbound" | "exposed" | "edge" | "upstream";
  declared(snapshot: Snapshot): readonly string[];
  /** Why a declared one cannot be opened in this process; absent: it can. */
  whyNot?(name: string, environment: ListenerEnvironment): string | undefined;
  make(name: string, snapshot: Snapshot, environment: ListenerEnvironment): ServedListener;
}

/** The part of a snapshot that a listener is made from. */
interface ListenedPart {
  /** `null`: it does not listen. */
  readonly bind: BindAddress | null;
  readonly http: HttpRules | null;
  /** The local application; absent: it leads to upstreams. */
  readonly local?: Address;
  readonly localConnectTimeoutMs?: number;
}

export abstract class ServedListener<Part extends ListenedPart = ListenedPart>
  implements ListenerFacts {
  abstract readonly kind: ListenerKind["name"];
  readonly name: string;
  readonly direction: "inbound" | "outbound";
  readonly context: Context;
  readonly stats: ListenerStats;
  readonly observers: ConnectionObservers;
  /** Absent: it leads to the local application, or to several upstreams. */
  readonly upstream: Upstream | undefined = undefined;

  constructor(
    name: string,
    direction: "inbound" | "outbound",
    context: Context,
    stats: ListenerStats = new ListenerStats(context.stats, direction, name),
  ) {
    this.name = name;
    this.direction = direction;
    this.context = context;
    this.stats = stats;
    this.observers = new ConnectionObservers(stats, context);
  }

  abstract get part(): Part;
  abstract get places(): ConnectionLimiter;
  abstract get limits(): ConnectionLimits;
  abstract get tls(): ListenerFacts["tls"];
  abstract get fault(): string;
  abstract get protocols(): readonly string[];
  /** `undefined`: its connections carry bytes. */
  abstract get httpListener(): HttpListener | undefined;

  /** Takes over its part of a snapshot, if declared. True: open connections must be judged again. */
  abstract take(snapshot: Snapshot): boolean;

  /** Its address; `null`: it does not listen in this worker. */
  get bind(): BindAddress | null {
    return this.part.bind;
  }

  get http(): Part["http"] {
    return this.part.http;
  }

  get destination(): string {
    return this.context.facts.service;
  }

  get authorizeMode(): AuthorizeMode {
    return "nobody";
  }

  whyFull(_remote: string): ReachedLimit {
    const { limit } = this.context.processLimit;
    const reason = `the process holds ${limit} connections`;
    return { code: "overloaded", reason, limit: "process" };
  }

  /** Callers that may call it: the local application, or any. */
  get callers(): CallerKind {
    return "strangers";
  }

  /** Addresses that may call it, for operators; `""`: any address. */
  get allowedAddresses(): string {
    return "";
  }

  protected get tcp(): TcpDestination | undefined {
    return undefined;
  }

  serve(session: Session): SessionService {
    const { httpListener, tcp } = this;
    if (httpListener) return new HttpService(session, httpListener);
    if (tcp) return new TcpService(session, tcp);
    throw new TypeError(`listener ${this.name} serves nothing`);
  }

  /** Before it is bound: its share of the connections may have changed. */
  setShare(_shares: ConnectionShares): void {}

  /** After all parts of a snapshot were taken over; `judge`: pooled connections are judged again. */
  update(_judge: boolean): void {}

  /** Closes what is pooled for requests to come. */
  end(): void {}

  /** It is not declared any more; open connections live on. */
  removed(): void {
    this.end();
  }

  /** Connections are open on either side. */
  get isUsed(): boolean {
    return false;
  }

  /** Removed and not used any more: its metrics go. */
  forget(): void {}
}
