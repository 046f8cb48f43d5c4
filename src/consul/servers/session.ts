/** The session with the server in use, and the move to another when it fails. @module */

import { type Clock, messageOf, ProxyError, type Random, type Timer } from "../../base/mod.ts";
import type { GrpcLink } from "../../grpc/mod.ts";
import type { DialEngine } from "../../http/mod.ts";
import type { ClusterPin } from "../http/cluster.ts";
import type { CallToken } from "../http/token.ts";
import type { CommonDeps, ServersStatus } from "../model/consul.ts";
import { callOnce, isUnauthenticated } from "./calls.ts";
import {
  type CallTarget,
  type FollowedStream,
  followStream,
  type StreamSession,
} from "./followed_stream.ts";
import { WATCH_SERVERS } from "./methods.ts";
import { type Lookup, systemLookup } from "./server_addresses.ts";
import { createServerProbe } from "./server_probe.ts";
import { ServerSearch } from "./server_search.ts";
import { createServersTls } from "./servers_tls.ts";
import type { ConsulServers, Method, Server, ServersOptions, StreamSink } from "./types.ts";

interface SessionDeps extends CommonDeps {
  readonly engine: DialEngine;
  readonly token: CallToken;
  /** A server of another cluster is never used; absent: any is. */
  readonly cluster?: ClusterPin;
  /** Absent: the system's. */
  readonly lookup?: Lookup;
}

/** A server that served this long has its failures forgotten, or is probed again. */
const LOOK_MS = 60_000;
const PROBE_MS = 5_000;

const CONNECTED = [
  "server_connected",
  "1 while a Consul server is in use, 0 while none is",
] as const;

interface CallTerms {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/** Dials at once; throws `config_invalid` where files for TLS cannot be used. */
export class ServersSession implements ConsulServers, StreamSession {
  readonly clock: Clock;
  readonly random: Random;
  readonly names: ServersOptions["names"];
  readonly #options: ServersOptions;
  readonly #deps: SessionDeps;
  readonly #search: ServerSearch;
  readonly #probe: (target: CallTarget) => Promise<void>;
  readonly #closing = new AbortController();
  readonly #streams = new Set<FollowedStream>();
  readonly #onMove = new Set<(server: Server) => void>();
  readonly #onDown = new Set<() => void>();
  readonly #stopToken: () => void;
  #inUse: (CallTarget & { readonly sinceMs: number }) | undefined;
  #look: Timer | undefined;
  /** Every known server has failed, and none was ever in use. */
  isDown = false;
  #uses = 0;
  /** The server that was left, until another one is in use. */
  #left: { readonly host: string; readonly reason: string } | undefined;
  #hasWarnedPlain = false;
  /** The target that is probed because a call to it failed. */
  #doubted: CallTarget | undefined;

  constructor(options: ServersOptions, deps: SessionDeps) {
    const { clock, random, token, log, cluster } = deps;
    this.clock = clock;
    this.random = random;
    this.names = options.names;
    this.#options = options;
    this.#deps = deps;
    this.#probe = createServerProbe({
      log,
      cluster,
      call: (target, method, isStream) =>
        this.#callOn(target, { method, request: null }, { timeoutMs: PROBE_MS, isStream }),
    });
    const { places, grpcPort } = options;
    this.#search = new ServerSearch({
      lookup: systemLookup,
      ...deps,
      places,
      grpcPort,
      tls: createServersTls(options, deps),
      probe: this.#probe,
      onNone: () => this.#foundNone(),
      onLost: (link, reason) => this.#lost(link, reason),
    });
    this.#stopToken = token.onChange(() => this.#renewStreams());
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
    terms: CallTerms,
  ): Promise<Response> {
    const untilMs = this.clock.monotonic() + terms.timeoutMs;
    let target: CallTarget | undefined;
    try {
      target = await this.#targetFor(method.what, terms);
      const timeoutMs = untilMs - this.clock.monotonic();
      const answer = await this.#callOn(target, { method, request }, { ...terms, timeoutMs });
      this.count(method.resource, "ok");
      return answer;
    } catch (error) {
      const code = error instanceof ProxyError ? error.code : "internal";
      if (code !== "closed") this.count(method.resource, code);
      if (target && code === "agent_unreachable") void this.#doubt(target);
      throw error;
    }
  }

  #callOn<Request, Response>(
    { server, link }: CallTarget,
    call: { readonly method: Method<Request, Response>; readonly request: Request },
    { isStream = false, ...terms }: CallTerms & { readonly isStream?: boolean },
  ): Promise<Response> {
    const { clock, names } = this;
    const token = this.token();
    return callOnce(link, call, {
      ...terms,
      host: server.host,
      token,
      clock,
      names,
      isStream,
      signal: this.#untilClosed(terms.signal),
      onStatus: (status) => {
        if (!isStream && isUnauthenticated(status)) this.rejected(token);
      },
    });
  }

  follow<Request, Response>(
    method: Method<Request, Response>,
    request: Request,
    sink: StreamSink<Response>,
  ): { stop(): void } {
    const stream = followStream(method, request, { sink, session: this });
    this.#streams.add(stream);
    return {
      stop: () => {
        this.#streams.delete(stream);
        stream.stop();
      },
    };
  }

  onMove(fn: (server: Server) => void): () => void {
    this.#onMove.add(fn);
    return () => this.#onMove.delete(fn);
  }

  /** Calls `fn` when {@link isDown} turns true. Returns how to stop. */
  onDown(fn: () => void): () => void {
    this.#onDown.add(fn);
    return () => this.#onDown.delete(fn);
  }

  leave(server: Server, reason: string): void {
    const target = this.#inUse;
    if (!target || target.server !== server || this.#closing.signal.aborted) return;
    this.#inUse = undefined;
    this.#look?.cancel();
    this.#search.failed(server.host, `${server.host}: ${reason}`);
    this.#deps.stats.gauge(...CONNECTED).set(0);
    this.#deps.log.warn("consul server left", { server: server.host, reason });
    this.#left = { host: server.host, reason };
    target.link.drain();
    void this.#findServer();
  }

  close(): void {
    this.#closing.abort();
    this.#stopToken();
    this.#look?.cancel();
    for (const stream of this.#streams) stream.stop();
    this.#streams.clear();
    this.#onMove.clear();
    this.#onDown.clear();
    this.#inUse?.link.close();
    this.#inUse = undefined;
  }

  // For streams and probes.

  /** Undefined before there is a token: the token opens all streams anyway. */
  target(): CallTarget | undefined {
    return this.#deps.token.coming ? undefined : this.#inUse;
  }

  /** The token of calls now; `""`: none. */
  token(): string {
    const token = this.#deps.token.current();
    if (token !== "" && this.#options.tls === null && !this.#hasWarnedPlain) {
      this.#hasWarnedPlain = true;
      this.#deps.log.warn("consul's servers are told the token in plain text (-tls-disabled)");
    }
    return token;
  }

  rejected(token: string): void {
    if (token !== "") this.#deps.token.rejected(token);
  }

  /** Counts the end of a call or stream, or `ok` for a stream that delivers. */
  count(resource: string, result: string): void {
    const help = "gRPC calls to Consul servers that ended, by resource and result";
    this.#deps.stats.counter("server_requests_total", help, { resource, result }).add(1);
  }

  /** Ends with the session. */
  #untilClosed(signal: AbortSignal | undefined): AbortSignal {
    const { signal: closing } = this.#closing;
    return signal ? AbortSignal.any([signal, closing]) : closing;
  }

  /** Waits for a server, and for the token of a login. */
  #targetFor(what: string, { timeoutMs, signal }: CallTerms): Promise<CallTarget> {
    const { token } = this.#deps;
    const ended = this.#untilClosed(signal);
    return new Promise((resolve, reject) => {
      const abort = () => {
        over();
        reject(new ProxyError("closed", `Cannot ${what}: it is not wanted any more`));
      };
      const look = () => {
        const target = this.target();
        if (!target) return;
        over();
        resolve(target);
      };
      const stops = [this.onMove(look), token.onChange(look)];
      const timer = this.clock.after(timeoutMs, () => {
        over();
        const fact = this.#inUse
          ? "there is no token yet"
          : `no Consul server is in use: ${this.#search.lastFailure || "none was found in time"}`;
        reject(new ProxyError("agent_unreachable", `Cannot ${what}: ${fact}`));
      });
      const over = () => {
        for (const stop of stops) stop();
        timer.cancel();
        ended.removeEventListener("abort", abort);
      };
      ended.addEventListener("abort", abort);
      if (ended.aborted) return abort();
      look();
      token.coming?.then(look, (error) => {
        over();
        reject(error);
      });
    });
  }

  async #findServer(): Promise<void> {
    const found = await this.#search.find(this.#closing.signal);
    if (found) this.#use(found);
  }

  /** Only at the start: a server that was in use is back sooner than its callers give up. */
  #foundNone(): void {
    if (this.#uses > 0) return;
    this.isDown = true;
    for (const fn of [...this.#onDown]) fn();
  }

  #use(found: CallTarget): void {
    const { server, link } = found;
    if (this.#closing.signal.aborted) return link.close();
    const target = this.#inUse = { ...found, sinceMs: this.clock.now() };
    this.isDown = false;
    const { stats, log } = this.#deps;
    stats.gauge(...CONNECTED).set(1);
    if (this.#uses++ > 0) {
      const help = "Times that a Consul server was taken into use, after the first";
      stats.counter("server_moves_total", help).add(1);
    }
    log.info("consul server in use", { server: server.host, known: this.#search.known.length });
    this.#reportMove(server);
    this.#lookAfter(target);
    this.#renewStreams();
    for (const fn of [...this.#onMove]) fn(server);
  }

  #reportMove({ host }: Server): void {
    const left = this.#left;
    this.#left = undefined;
    if (!left) return;
    const move = left.host === host
      ? `Consul server ${host} in use again`
      : `Consul server changed from ${left.host} to ${host}`;
    const text = `${move}: ${left.reason}`;
    this.#deps.report?.({ kind: "source", subject: "consul", text, isLogged: true });
  }

  #renewStreams(): void {
    for (const stream of [...this.#streams]) stream.renew();
  }

  #lookAfter(target: CallTarget): void {
    this.#look = this.clock.after(LOOK_MS * (0.9 + 0.2 * this.random()), () => {
      this.#search.proved(target.server.host);
      this.#lookAfter(target);
      // Without a stream of ours the loss of the server could go unnoticed.
      if (!this.#options.watchServers) void this.#doubt(target);
    });
  }

  /** Probes a server after a call that failed, or got no answer in time. */
  async #doubt(target: CallTarget): Promise<void> {
    if (this.#doubted === target || this.#inUse !== target) return;
    this.#doubted = target;
    try {
      await this.#probe(target);
    } catch (error) {
      this.leave(target.server, messageOf(error));
    } finally {
      this.#doubted = undefined;
    }
  }

  #lost(link: GrpcLink, reason: string): void {
    const target = this.#inUse;
    if (target?.link === link) this.leave(target.server, reason);
  }
}
