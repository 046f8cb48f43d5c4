/** A listener at the edge of the mesh: the host of each request selects the upstream. @module */

import { hostname } from "node:os";
import { compileChanges, type HeaderChanges, HostTable, ownNamesOf } from "../../http/mod.ts";
import type { EdgePart, Snapshot } from "../../snapshot/mod.ts";
import type { ListenerFacts } from "../caller/session.ts";
import { INBOUND_COLUMN, type SharedLimiter } from "../core/admission.ts";
import type { ConnectionLimits } from "../core/live_connections.ts";
import { HttpStats } from "../observe/http_stats.ts";
import { ExchangeObservers } from "../observe/observers.ts";
import type { HttpListener } from "../service/stages.ts";
import { EITHER_VERSION, type RequestRoute } from "../upstream/request_pools.ts";
import {
  type ConnectionShares,
  type ListenerEnvironment,
  type ListenerKind,
  ServedListener,
} from "./listener.ts";

export const EDGE: ListenerKind = {
  name: "edge",
  declared: ({ edges }) => Object.keys(edges),
  make(name, { edges }, environment) {
    const part = edges[name];
    if (!part) throw new TypeError(`no edge listener ${name}`);
    return new EdgeListener(name, part, environment);
  },
};

interface EdgeRoute {
  readonly upstream: string;
  readonly changes: Pick<RequestRoute, "changeRequest" | "ownNames" | "changeResponse">;
}

export class EdgeListener extends ServedListener<EdgePart> {
  readonly kind = "edge";
  readonly protocols = EITHER_VERSION;
  readonly places: SharedLimiter;
  readonly limits: ConnectionLimits;
  readonly httpListener: HttpListener;
  part: EdgePart;
  #hosts: HostTable<EdgeRoute>;

  constructor(name: string, part: EdgePart, environment: ListenerEnvironment) {
    super(name, "outbound", environment.context);
    this.places = environment.limiter(INBOUND_COLUMN, 0);
    this.limits = environment.limits;
    this.part = part;
    this.#hosts = this.#hostsOf(part);
    const speaksGrpc = () => this.part.http.protocol === "grpc";
    const owner = { direction: this.direction, listener: name, speaksGrpc };
    const stats = new HttpStats(this.context.stats, owner);
    this.httpListener = {
      facts: this,
      stats,
      observers: new ExchangeObservers(stats, this.context),
      routeOf: ({ authority }) => {
        const host = this.#hosts.find(authority);
        const route = host && environment.routeTo(host.upstream);
        return route && { ...route, ...host.changes };
      },
      rules: () => this.http,
    };
  }

  take({ edges }: Snapshot): boolean {
    const part = edges[this.name];
    if (!part) return false;
    const before = this.part;
    this.part = part;
    if (part.version !== before.version) this.#hosts = this.#hostsOf(part);
    return part.listener?.credentials !== before.listener?.credentials;
  }

  override setShare({ process }: ConnectionShares): void {
    this.places.limit = process;
  }

  override get destination(): string {
    return this.name;
  }

  get tls(): ListenerFacts["tls"] {
    return this.part.listener;
  }

  get fault(): string {
    const { listener } = this.part;
    return listener ? this.context.facts.trusts.fault(listener.credentials) : "";
  }

  #hostsOf({ hosts, bind: { port } }: EdgePart): HostTable<EdgeRoute> {
    const { clock } = this.context;
    const values = { hostname: hostname(), now: () => clock.now() };
    const compiled = (changes?: HeaderChanges) => changes && compileChanges(changes, values);
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
