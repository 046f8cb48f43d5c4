/**
 * One embedded server: an HTTP API and a gRPC port in front of what all servers share, in the state that
 * the cluster has it in.
 *
 * @module
 */

import type { Clock, Log, Random } from "../../base/mod.ts";
import type { Engine } from "../../net/mod.ts";
import type { Standing, World } from "../http/call.ts";
import { type Fault, Faults, needsReply, spoil } from "../http/faults.ts";
import type { DevReply, DevRequest } from "../http/dev_exchange.ts";
import { HttpServer } from "../http/http_server.ts";
import { route } from "../http/router.ts";
import type { Cluster } from "./cluster.ts";
import { FrozenAcceptor } from "./frozen.ts";
import { GrpcServer } from "./grpc/grpc_server.ts";
import { type ListedServer, methodsOf } from "./grpc/services.ts";
import type { SigningPace } from "./grpc/sign.ts";
import { answerUnless, isLocal, isStale, leaderless } from "./led.ts";
import { securedBy, type ServersTls } from "./server_tls.ts";
import { View } from "./view.ts";

/** How often a leader is heard of, and how long its silence means nothing. */
const HEARTBEAT_MS = 70;
const UNNOTICED_MS = 500;

export interface DevServerOptions {
  readonly number: number;
  readonly host: string;
  readonly cluster: Cluster;
  readonly engine: Engine;
  /** Of both ports; absent: plain text. */
  readonly tls: ServersTls | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly pace: SigningPace;
  /** With the server's own node and local services. */
  readonly world: World;
  readonly listed: () => readonly ListedServer[];
}

export class DevServer {
  readonly host: string;
  readonly #options: DevServerOptions;
  readonly #acceptors: readonly [http: FrozenAcceptor, grpc: FrozenAcceptor];
  readonly #http: HttpServer;
  readonly #grpc: GrpcServer;
  readonly #faults = new Faults();
  readonly #view: View;
  #requests = 0;

  constructor(options: DevServerOptions) {
    const { engine, tls, host, clock, cluster, random, pace, listed } = options;
    const world = { ...options.world, standing: () => this.#standing() };
    this.#options = { ...options, world };
    this.#view = new View(world, clock);
    this.host = host;
    const { http, grpc } = tls
      ? { http: securedBy(engine, tls, ["h2", "http/1.1"]), grpc: securedBy(engine, tls, ["h2"]) }
      : { http: engine, grpc: engine };
    this.#acceptors = [new FrozenAcceptor(http), new FrozenAcceptor(grpc)];
    this.#http = new HttpServer({
      engine: this.#acceptors[0],
      clock,
      host,
      isSecure: tls !== undefined,
      handle: (request) => this.#handle(request),
      onError: (message) => options.log.warn("embedded server failed", { host, error: message }),
    });
    this.#grpc = new GrpcServer({
      engine: this.#acceptors[1],
      clock,
      host,
      methods: methodsOf({
        world,
        random,
        pace,
        get hasLeader() {
          return cluster.leader !== undefined;
        },
        listed,
        onListed: (fn) => cluster.onListed(fn),
      }),
    });
  }

  /** `http://127.0.0.1:PORT`, or `https://`. */
  get address(): string {
    return `${this.#options.tls ? "https" : "http"}://${this.host}:${this.httpPort}`;
  }

  get httpPort(): number {
    return this.#http.port;
  }

  get grpcPort(): number {
    return this.#grpc.port;
  }

  /** What it carries now, and requests so far; gRPC calls are those that are open. */
  get load(): {
    readonly connections: number;
    readonly requests: number;
    readonly grpcConnections: number;
    readonly grpcCalls: number;
  } {
    return {
      connections: this.#http.connections,
      requests: this.#requests,
      grpcConnections: this.#grpc.connections,
      grpcCalls: this.#grpc.calls,
    };
  }

  /** The next `times` requests to its HTTP API whose `METHOD /target` matches get the fault. */
  breakNext(on: RegExp, fault: Fault, times = 1): void {
    this.#faults.add(on, fault, times);
  }

  /** What it answers stale reads from. */
  get view(): View {
    return this.#view;
  }

  async start(httpPort: number, grpcPort: number): Promise<void> {
    await this.#http.start(httpPort);
    try {
      await this.#grpc.start(grpcPort);
    } catch (error) {
      this.#http.stop();
      throw error;
    }
  }

  /** Every connection breaks. */
  stop(): void {
    this.#view.stop();
    this.#http.stop();
    this.#grpc.stop();
    // Last: what a server that hangs has not said yet, it never says.
    this.thaw();
  }

  /** Connections stay; nothing is read or answered any more, pings neither. */
  freeze(): void {
    for (const acceptor of this.#acceptors) acceptor.freeze();
  }

  thaw(): void {
    for (const acceptor of this.#acceptors) acceptor.thaw();
  }

  async #handle(request: DevRequest): Promise<DevReply> {
    this.#requests++;
    const search = request.query.size > 0 ? `?${request.query}` : "";
    const fault = this.#faults.take(`${request.method} ${request.path}${search}`);
    if (!fault) return await this.#answer(request);
    const reply: DevReply = { status: 200, headers: {}, body: "" };
    return spoil(fault, needsReply(fault) ? await this.#answer(request) : reply);
  }

  async #answer(request: DevRequest): Promise<DevReply> {
    const { world } = this.#options;
    if (isLocal(request)) return await route(world, request);
    return isStale(request) ? await this.#answerStale(request) : await this.#answerLed(request);
  }

  async #answerLed(request: DevRequest): Promise<DevReply> {
    const { cluster, world } = this.#options;
    const from = this.host;
    if (cluster.leader === undefined && request.method !== "GET") await this.#leader();
    if (cluster.leader === undefined) return leaderless(request, { wasLed: false, from });
    const lost = (fn: () => void) => cluster.onLed((led) => led || fn());
    const reply = await answerUnless(world, request, lost);
    return reply ?? leaderless(request, { wasLed: true, from });
  }

  async #answerStale(request: DevRequest): Promise<DevReply> {
    const { cluster, number, world } = this.#options;
    for (;;) {
      // Who leads is never behind.
      const seen = cluster.leader === number ? world : this.#view.world;
      const reply = await answerUnless(seen, request, (fn) => this.#view.onReplaced(fn));
      if (reply) return reply;
    }
  }

  /** Resolves when there is one, or when a write has waited for long enough. */
  #leader(): Promise<void> {
    const { cluster, clock } = this.#options;
    return new Promise((resolve) => {
      const done = () => {
        timer.cancel();
        stop();
        resolve();
      };
      const timer = clock.after(cluster.timing.writeMs, done);
      const stop = cluster.onLed((led) => led && done());
    });
  }

  #standing(): Standing {
    const { cluster, random, number } = this.#options;
    if (cluster.leader === number) return { knownLeader: true, lastContactMs: 0 };
    const { leaderlessMs } = cluster;
    return {
      // A follower notices only after a while.
      knownLeader: leaderlessMs < UNNOTICED_MS,
      lastContactMs: Math.floor(leaderlessMs + random() * HEARTBEAT_MS),
    };
  }
}
