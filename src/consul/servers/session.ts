/**
 * The session with the server in use: one connection for all calls and streams, and the search for another
 * server when it is no good any more.
 *
 * @module
 */

import {
  type Clock,
  type Log,
  messageOf,
  ProxyError,
  type Random,
  type Stats,
  type Timer,
} from "../../base/mod.ts";
import { type GrpcLink } from "../../grpc/mod.ts";
import { type DialEngine } from "../../http/mod.ts";
import type { ServersStatus } from "../agent.ts";
import type { ClusterPin } from "../cluster_pin.ts";
import { askOnce } from "./ask_once.ts";
import {
  type AnyStream,
  type CallTarget,
  FollowedStream,
  type StreamSession,
} from "./followed_stream.ts";
import { isUnauthenticated } from "./grpc_errors.ts";
import { GET_FEATURES, WATCH_ROOTS, WATCH_SERVERS } from "./methods.ts";
import { type Lookup, systemLookup } from "./server_addresses.ts";
import { type FoundServer, ServerSearch } from "./server_search.ts";
import { createServersTls } from "./servers_tls.ts";
import { whenReady } from "./when_ready.ts";
import type {
  CallToken,
  ConsulServers,
  Method,
  Server,
  ServersOptions,
  StreamSink,
} from "./types.ts";

export interface SessionDeps {
  readonly engine: DialEngine;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly stats: Stats;
  readonly token: CallToken;
  /** A server of another cluster is never used; absent: any is. */
  readonly cluster?: ClusterPin;
  /** The system's where absent. */
  readonly lookup?: Lookup;
}

export interface ServersSession extends ConsulServers {
  readonly status: ServersStatus;
  /** Every known server has failed, and none was ever in use. */
  readonly isDown: boolean;
  /** `fn` is called when {@link isDown} turns true. Returns how to stop. */
  onDown(fn: () => void): () => void;
}

const PROBE_MS = 5_000;
/** How long a server serves until its failures of before are forgotten, or until it is probed again. */
const LOOK_MS = 60_000;

/** Dials at once; fails with `config_invalid` where files for TLS cannot be used. */
export function createServersSession(options: ServersOptions, deps: SessionDeps): ServersSession {
  return new Session(options, deps);
}

class Session implements ServersSession, StreamSession {
  readonly clock: Clock;
  readonly random: Random;
  readonly names: ServersOptions["names"];
  readonly #options: ServersOptions;
  readonly #deps: SessionDeps;
  readonly #search: ServerSearch;
  readonly #closing = new AbortController();
  readonly #streams = new Set<AnyStream>();
  readonly #movers = new Set<(server: Server) => void>();
  readonly #stopToken: () => void;
  #inUse: (CallTarget & { readonly sinceMs: number }) | undefined;
  #look: Timer | undefined;
  readonly #onDown = new Set<() => void>();
  isDown = false;
  #uses = 0;
  #toldPlain = false;
  /** Hosts of servers of other clusters. */
  readonly #foreign = new Set<string>();
  #doubted: CallTarget | undefined;

  constructor(options: ServersOptions, deps: SessionDeps) {
    const { clock, random, token } = deps;
    this.clock = clock;
    this.random = random;
    this.names = options.names;
    this.#options = options;
    this.#deps = deps;
    const { places, grpcPort } = options;
    this.#search = new ServerSearch({
      ...{ lookup: systemLookup, ...deps, places, grpcPort },
      tls: createServersTls(options, deps),
      probe: (link, host) => this.#probe({ link, server: { host } }),
      onNone: () => this.#foundNone(),
      onLost: (link, reason) => this.#lost(link, reason),
    });
    this.#stopToken = token.onChange(() => {
      for (const stream of [...this.#streams]) stream.renew();
    });
    if (options.watchServers) {
      this.follow(WATCH_SERVERS, null, {
        onMessage: (hosts) => this.#search.replace(hosts),
        onError: (error) => void (this.#search.lastFailure = error.message),
      });
    }
    void this.#findServer();
  }

  get current(): Server | undefined {
    return this.#inUse?.server;
  }

  get status(): ServersStatus {
    return {
      server: this.current?.host ?? "",
      sinceMs: this.#inUse?.sinceMs,
      known: this.#search.known,
      moves: Math.max(0, this.#uses - 1),
      lastFailure: this.#search.lastFailure,
    };
  }

  async call<Request, Response>(
    method: Method<Request, Response>,
    request: Request,
    options: { readonly timeoutMs: number; readonly signal?: AbortSignal },
  ): Promise<Response> {
    const { timeoutMs, signal } = options;
    const untilMs = this.clock.monotonic() + timeoutMs;
    let place: CallTarget | undefined;
    try {
      place = await this.#placeFor(method.what, options);
      const leftMs = untilMs - this.clock.monotonic();
      const answer = await this.#ask(place, { method, request, leftMs, signal });
      this.count(method.resource, "ok");
      return answer;
    } catch (error) {
      const code = error instanceof ProxyError ? error.code : "internal";
      if (code !== "closed") this.count(method.resource, code);
      if (place && code === "agent_unreachable") void this.#doubt(place);
      throw error;
    }
  }

  follow<Request, Response>(
    method: Method<Request, Response>,
    request: Request,
    sink: StreamSink<Response>,
  ): { stop(): void } {
    const stream = new FollowedStream(method, request, { sink, host: this });
    this.#streams.add(stream);
    return {
      stop: () => {
        this.#streams.delete(stream);
        stream.stop();
      },
    };
  }

  onMove(fn: (server: Server) => void): () => void {
    this.#movers.add(fn);
    return () => this.#movers.delete(fn);
  }

  onDown(fn: () => void): () => void {
    this.#onDown.add(fn);
    return () => this.#onDown.delete(fn);
  }

  leave(server: Server, reason: string): void {
    const place = this.#inUse;
    if (!place || place.server !== server || this.#closing.signal.aborted) return;
    this.#inUse = undefined;
    this.#look?.cancel();
    this.#search.failed(server.host, `${server.host}: ${reason}`);
    this.#deps.stats.gauge(...CONNECTED).set(0);
    this.#deps.log.warn("consul server left", { server: server.host, reason });
    place.link.drain();
    void this.#findServer();
  }

  close(): void {
    this.#closing.abort();
    this.#stopToken();
    this.#look?.cancel();
    for (const stream of this.#streams) stream.stop();
    this.#streams.clear();
    this.#movers.clear();
    this.#onDown.clear();
    this.#inUse?.link.close();
    this.#inUse = undefined;
  }

  // For streams.

  /** Not before there is a token: another one opens all streams anyway. */
  place(): CallTarget | undefined {
    return this.#deps.token.coming ? undefined : this.#inUse;
  }

  token(): string {
    const token = this.#deps.token.current();
    if (token !== "" && this.#options.tls === null && !this.#toldPlain) {
      this.#toldPlain = true;
      this.#deps.log.warn("consul's servers are told the token in plain text (-tls-disabled)");
    }
    return token;
  }

  rejected(token: string): void {
    if (token !== "") this.#deps.token.rejected(token);
  }

  count(resource: string, result: string): void {
    this.#deps.stats.counter(
      "server_requests_total",
      "gRPC calls to Consul servers that ended, by resource and result",
      {
        resource,
        result,
      },
    ).add(1);
  }

  #ask<Request, Response>(
    { server, link }: CallTarget,
    question: {
      readonly method: Method<Request, Response>;
      readonly request: Request;
      readonly leftMs: number;
      readonly signal?: AbortSignal | undefined;
    },
  ): Promise<Response> {
    const { leftMs: timeoutMs, signal } = question;
    const token = this.token();
    return askOnce(link, question, {
      ...{ host: server.host, token, timeoutMs, clock: this.clock, signal: this.#until(signal) },
      names: this.names,
      onStatus: (status) => {
        if (isUnauthenticated(status)) this.rejected(token);
      },
    });
  }

  #until(signal: AbortSignal | undefined): AbortSignal {
    const { signal: closing } = this.#closing;
    return signal ? AbortSignal.any([signal, closing]) : closing;
  }

  #placeFor(
    what: string,
    { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal?: AbortSignal },
  ): Promise<CallTarget> {
    const { token } = this.#deps;
    return whenReady(() => this.place(), {
      ...{ clock: this.clock, timeoutMs, signal: this.#until(signal) },
      hints: [
        (look) => this.onMove(look),
        (look) => token.onChange(look),
        (look, fail) => {
          token.coming?.then(look, fail);
          return () => {};
        },
      ],
      aborted: () => new ProxyError("closed", `Cannot ${what}: it is not wanted any more`),
      late: () => {
        const fact = this.#inUse
          ? "there is no token yet"
          : `no Consul server is in use: ${this.#search.lastFailure || "none was found in time"}`;
        return new ProxyError("agent_unreachable", `Cannot ${what}: ${fact}`);
      },
    });
  }

  async #findServer(): Promise<void> {
    const found = await this.#search.find(this.#closing.signal);
    if (found) this.#use(found);
  }

  /** A server that was in use is back sooner than its callers give up; of one that was not, nothing says so. */
  #foundNone(): void {
    if (this.#uses > 0) return;
    this.isDown = true;
    for (const fn of [...this.#onDown]) fn();
  }

  async #probe(place: CallTarget): Promise<void> {
    try {
      await this.#ask(place, { method: GET_FEATURES, request: null, leftMs: PROBE_MS });
    } catch (error) {
      // Who minds our token serves, and tells each call so.
      if (!(error instanceof ProxyError && error.code === "agent_forbidden")) throw error;
    }
    await this.#proveCluster(place);
  }

  /** One that may not be asked for its roots is judged by HTTP, where that takes no right. */
  async #proveCluster({ server, link }: CallTarget): Promise<void> {
    const { cluster } = this.#deps;
    if (!cluster?.isSet) return;
    try {
      const question = { method: WATCH_ROOTS, request: null };
      const { trustDomain } = await askOnce(link, question, {
        ...{ host: server.host, token: this.token(), timeoutMs: PROBE_MS, isStream: true },
        ...{ clock: this.clock, signal: this.#closing.signal, names: this.names },
      });
      cluster.judge(trustDomain, `the Consul server ${server.host}`);
      this.#foreign.delete(server.host);
    } catch (error) {
      this.#tellForeign(server, error);
      if (!(error instanceof ProxyError && error.code === "agent_forbidden")) throw error;
    }
  }

  /** Once for each, however often it is tried. */
  #tellForeign({ host }: Server, error: unknown): void {
    if (!(error instanceof ProxyError && error.code === "cluster_changed")) return;
    if (this.#foreign.has(host)) return;
    this.#foreign.add(host);
    const fields = { server: host, error: error.message };
    this.#deps.log.error("consul server belongs to another cluster", fields);
  }

  #use({ host, link }: FoundServer): void {
    if (this.#closing.signal.aborted) return link.close();
    const server: Server = { host };
    const place = this.#inUse = { server, link, sinceMs: this.clock.now() };
    this.isDown = false;
    const { stats, log } = this.#deps;
    stats.gauge(...CONNECTED).set(1);
    if (this.#uses++ > 0) {
      stats.counter(
        "server_moves_total",
        "Times that a Consul server was taken into use, after the first",
      )
        .add(1);
    }
    log.info("consul server in use", { server: host, known: this.#search.known.length });
    this.#lookAfter(place);
    for (const stream of [...this.#streams]) stream.renew();
    for (const fn of [...this.#movers]) fn(server);
  }

  #lookAfter(place: CallTarget): void {
    this.#look = this.clock.after(LOOK_MS * (0.9 + 0.2 * this.random()), () => {
      this.#search.proved(place.server.host);
      this.#lookAfter(place);
      // Without a stream of ours nothing may tell that it is gone.
      if (!this.#options.watchServers) void this.#doubt(place);
    });
  }

  /** What did not answer in time, or says that it is unavailable, may not be there for others either. */
  async #doubt(place: CallTarget): Promise<void> {
    if (this.#doubted === place || this.#inUse !== place) return;
    this.#doubted = place;
    try {
      await this.#probe(place);
    } catch (error) {
      this.leave(place.server, messageOf(error));
    } finally {
      this.#doubted = undefined;
    }
  }

  #lost(link: GrpcLink, reason: string): void {
    const place = this.#inUse;
    if (place?.link === link) this.leave(place.server, reason);
  }
}

const CONNECTED = [
  "server_connected",
  "1 while a Consul server is in use, 0 while none is",
] as const;
