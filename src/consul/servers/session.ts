/**
 * The session with the server in use: one connection for all calls and streams, and the search for another
 * server when it is no good any more.
 *
 * @module
 */

import {
  Backoff,
  type Clock,
  type Log,
  messageOf,
  ProxyError,
  type Random,
  sleep,
  type Stats,
  type Timer,
} from "../../base/mod.ts";
import { dialGrpcLink, type GrpcEngine, type GrpcLink, type GrpcTls } from "../../grpc/mod.ts";
import { askOnce } from "./ask_once.ts";
import { type AnyStream, FollowedStream, type Place, type StreamHost } from "./followed_stream.ts";
import { isUnauthenticated } from "./grpc_errors.ts";
import { GET_FEATURES, WATCH_SERVERS } from "./methods.ts";
import { findServers, type Lookup, systemLookup } from "./places.ts";
import { ServerList } from "./server_list.ts";
import { createServersTls } from "./servers_tls.ts";
import type { Method, Server, Servers, ServersOptions, StreamSink, Token } from "./types.ts";

export interface SessionDeps {
  readonly engine: GrpcEngine;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly stats: Stats;
  readonly token: Token;
  /** The system's where absent. */
  readonly lookup?: Lookup;
}

/** For the admin server. Times are monotonic. */
export interface SessionFacts {
  /** `""`: none. */
  readonly server: string;
  readonly sinceMs: number | undefined;
  readonly known: readonly string[];
  /** How often another server was taken after the first. */
  readonly moves: number;
  /** Of the search for a server, or why the last one was left; `""`: none yet. */
  readonly lastFailure: string;
}

export interface ServersSession extends Servers {
  readonly facts: SessionFacts;
}

const CONNECT_MS = 5_000;
const PROBE_MS = 5_000;
/**
 * A silent server is asked every 16 s, for which Consul wants at least 15, and noticed after 6 s more: the
 * pause counts from the end of the time for the answer.
 */
const KEEP_ALIVE_MS = 10_000;
const KEEP_ALIVE_TIMEOUT_MS = 6_000;
const LOOK_MS = 60_000;

/** Dials at once; fails with `config_invalid` where files for TLS cannot be used. */
export function createServersSession(options: ServersOptions, deps: SessionDeps): ServersSession {
  return new Session(options, deps);
}

interface InUse extends Place {
  readonly sinceMs: number;
}

class Session implements ServersSession, StreamHost {
  readonly clock: Clock;
  readonly random: Random;
  readonly #options: ServersOptions;
  readonly #deps: SessionDeps;
  readonly #tls: GrpcTls | null;
  readonly #list: ServerList;
  readonly #closing = new AbortController();
  readonly #streams = new Set<AnyStream>();
  readonly #movers = new Set<(server: Server) => void>();
  readonly #links = new Set<GrpcLink>();
  readonly #stopToken: () => void;
  #inUse: InUse | undefined;
  #look: Timer | undefined;
  #uses = 0;
  #lastFailure = "";
  #toldPlain = false;

  constructor(options: ServersOptions, deps: SessionDeps) {
    const { clock, random, token } = deps;
    this.clock = clock;
    this.random = random;
    this.#options = options;
    this.#deps = deps;
    this.#tls = createServersTls(options, deps);
    this.#list = new ServerList(random);
    this.#stopToken = token.onChange(() => {
      for (const stream of [...this.#streams]) stream.renew();
    });
    if (options.watchServers) {
      this.follow(WATCH_SERVERS, null, {
        onMessage: (hosts) => this.#replace(hosts),
        onError: (error) => void (this.#lastFailure = error.message),
      });
    }
    void this.#search();
  }

  get current(): Server | undefined {
    return this.#inUse?.server;
  }

  get facts(): SessionFacts {
    return {
      server: this.current?.host ?? "",
      sinceMs: this.#inUse?.sinceMs,
      known: this.#list.hosts,
      moves: Math.max(0, this.#uses - 1),
      lastFailure: this.#lastFailure,
    };
  }

  async call<Request, Response>(
    method: Method<Request, Response>,
    request: Request,
    options: { readonly timeoutMs: number; readonly signal?: AbortSignal },
  ): Promise<Response> {
    const { timeoutMs, signal } = options;
    const untilMs = this.clock.monotonic() + timeoutMs;
    const { server, link } = await this.#placeFor(method.what, options);
    const leftMs = untilMs - this.clock.monotonic();
    try {
      const answer = await this.#ask(link, server.host, { method, request, leftMs, signal });
      this.count(method.resource, "ok");
      return answer;
    } catch (error) {
      if (error instanceof ProxyError && error.code !== "closed") {
        this.count(method.resource, error.code);
      }
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

  leave(server: Server, reason: string): void {
    const place = this.#inUse;
    if (!place || place.server !== server || this.#closing.signal.aborted) return;
    this.#inUse = undefined;
    this.#look?.cancel();
    this.#lastFailure = reason;
    this.#list.failed(server.host, this.clock.monotonic());
    this.#deps.stats.gauge(...CONNECTED).set(0);
    this.#deps.log.warn("consul server left", { server: server.host, reason });
    this.#links.delete(place.link);
    place.link.drain();
    void this.#search();
  }

  close(): void {
    this.#closing.abort();
    this.#stopToken();
    this.#look?.cancel();
    for (const stream of this.#streams) stream.stop();
    this.#streams.clear();
    this.#movers.clear();
    this.#inUse = undefined;
    for (const link of this.#links) link.close();
    this.#links.clear();
  }

  // For streams.

  place(): Place | undefined {
    return this.#inUse;
  }

  token(): string {
    const token = this.#deps.token.current();
    if (token !== "" && this.#tls === null && !this.#toldPlain) {
      this.#toldPlain = true;
      this.#deps.log.warn(
        "the token goes to Consul's servers in plain text: anybody on the way reads it",
      );
    }
    return token;
  }

  rejected(token: string): void {
    if (token !== "") this.#deps.token.rejected(token);
  }

  count(resource: string, result: string): void {
    this.#deps.stats.counter("server_requests_total", "gRPC calls to Consul's servers", {
      resource,
      result,
    }).add(1);
  }

  #replace(hosts: readonly string[]): void {
    // Where nobody is ready those that were known may be soon.
    if (hosts.length === 0) return;
    this.#list.replace(hosts);
    this.#toldKnown();
  }

  #toldKnown(): void {
    const { stats } = this.#deps;
    stats.gauge("servers_known", "Consul's servers that are known").set(this.#list.hosts.length);
  }

  #ask<Request, Response>(
    link: GrpcLink,
    host: string,
    question: {
      readonly method: Method<Request, Response>;
      readonly request: Request;
      readonly leftMs: number;
      readonly signal?: AbortSignal | undefined;
    },
  ): Promise<Response> {
    const { method, leftMs: timeoutMs, signal } = question;
    const token = method.anonymous ? "" : this.token();
    return askOnce(link, question, {
      ...{ host, token, timeoutMs, clock: this.clock, signal: this.#until(signal) },
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
  ): Promise<Place> {
    if (this.#inUse) return Promise.resolve(this.#inUse);
    return new Promise((resolve, reject) => {
      const over = () => {
        stop();
        timer.cancel();
        ended.removeEventListener("abort", abort);
      };
      const abort = () => {
        over();
        reject(new ProxyError("closed", `Cannot ${what}: it is not wanted any more`));
      };
      const ended = this.#until(signal);
      const stop = this.onMove(() => {
        over();
        if (this.#inUse) resolve(this.#inUse);
      });
      const timer = this.clock.after(timeoutMs, () => {
        over();
        const fact = this.#lastFailure || `none was found within ${timeoutMs} ms`;
        const message = `Cannot ${what}: no Consul server is in use: ${fact}`;
        reject(new ProxyError("agent_unreachable", message));
      });
      if (ended.aborted) abort();
      else ended.addEventListener("abort", abort);
    });
  }

  async #search(): Promise<void> {
    const { signal } = this.#closing;
    const pauses = new Backoff({ baseMs: 500, maxMs: 10_000, random: this.random });
    let told = this.#uses > 0;
    while (!signal.aborted) {
      const host = this.#list.pick(this.clock.monotonic());
      if (host !== undefined) {
        const link = await this.#connect(host);
        if (link) return this.#use(host, link);
        continue;
      }
      await this.#discover();
      const waitMs = this.#list.waitMs(this.clock.monotonic());
      if (waitMs === 0) continue;
      if (this.#lastFailure && !told) {
        told = true;
        this.#deps.log.warn("no consul server can be used", { reason: this.#lastFailure });
      }
      await sleep(this.clock, Math.min(waitMs, pauses.next()), { signal });
    }
  }

  async #discover(): Promise<void> {
    const { lookup = systemLookup } = this.#deps;
    try {
      const found = await findServers(this.#options.places, { clock: this.clock, lookup });
      this.#list.add(found);
      this.#toldKnown();
    } catch (error) {
      this.#lastFailure = messageOf(error);
    }
  }

  /** A connection to a server that answers; `undefined`: it is none, or does not. */
  async #connect(host: string): Promise<GrpcLink | undefined> {
    const { grpcPort } = this.#options;
    const link: GrpcLink = dialGrpcLink({
      ...{ engine: this.#deps.engine, clock: this.clock, random: this.random, tls: this.#tls },
      address: { kind: "tcp", host, port: grpcPort },
      metadata: {},
      keepAliveMs: KEEP_ALIVE_MS,
      keepAliveTimeoutMs: KEEP_ALIVE_TIMEOUT_MS,
      limits: LIMITS,
      onLost: (reason) => this.#lost(link, reason),
    });
    this.#links.add(link);
    try {
      await link.opened;
      await this.#probe(link, host);
      // It may have been lost with the answer.
      if (!this.#links.has(link)) throw new Error("the connection ended");
      return link;
    } catch (error) {
      this.#links.delete(link);
      link.close();
      this.#lastFailure = `${host}: ${messageOf(error)}`;
      this.#list.failed(host, this.clock.monotonic());
      return undefined;
    }
  }

  async #probe(link: GrpcLink, host: string): Promise<void> {
    try {
      await this.#ask(link, host, { method: GET_FEATURES, request: null, leftMs: PROBE_MS });
    } catch (error) {
      // Who minds our token serves, and tells each call so.
      if (!(error instanceof ProxyError && error.code === "agent_forbidden")) throw error;
    }
  }

  #use(host: string, link: GrpcLink): void {
    const { signal } = this.#closing;
    if (signal.aborted) return;
    const server: Server = { host };
    this.#inUse = { server, link, sinceMs: this.clock.monotonic() };
    const { stats, log } = this.#deps;
    stats.gauge(...CONNECTED).set(1);
    if (this.#uses++ > 0) {
      stats.counter("server_moves_total", "How often another server was taken").add(1);
    }
    log.info("consul server in use", { server: host, known: this.#list.hosts.length });
    for (const stream of [...this.#streams]) stream.moved();
    for (const fn of [...this.#movers]) fn(server);
    this.#lookAgain(server, link);
  }

  #lookAgain(server: Server, link: GrpcLink): void {
    this.#look = this.clock.after(LOOK_MS * (0.9 + 0.2 * this.random()), async () => {
      this.#list.proved(server.host);
      try {
        if (!this.#options.watchServers) await this.#probe(link, server.host);
      } catch (error) {
        this.leave(server, messageOf(error));
      }
      if (this.#inUse?.server === server) this.#lookAgain(server, link);
    });
  }

  #lost(link: GrpcLink, reason: string): void {
    this.#links.delete(link);
    const place = this.#inUse;
    if (place?.link === link) this.leave(place.server, reason);
  }
}

const CONNECTED = ["server_connected", "1: a server of Consul's is in use"] as const;

/** A list of roots has some 10 KiB, and changes a few times a year. */
const LIMITS = {
  messageBytes: 4 * 1024 * 1024,
  begunBytes: 16 * 1024 * 1024,
  connectMs: CONNECT_MS,
  messageBurst: 200,
  messagesPerSecond: 10,
} as const;
