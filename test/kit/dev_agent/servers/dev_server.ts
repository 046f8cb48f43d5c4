/**
 * One embedded server: an HTTP API and a gRPC port in front of the data that all servers share, in the state
 * that the cluster has it in.
 *
 * @module
 */

import type { Clock, Log, Random } from "../../../../src/base/mod.ts";
import { type Api, has } from "../../../../src/dev/http/api.ts";
import { createApi } from "../../../../src/dev/routes/create_api.ts";
import { ApiListener, refusePages } from "../../../../src/dev/http/listener.ts";
import type { World } from "../../../../src/dev/world.ts";
import type { Engine } from "../../../../src/net/mod.ts";
import type { Acl } from "../acl/acl.ts";
import type { AuthMethods } from "../acl/auth_methods.ts";
import type { Cluster } from "./cluster.ts";
import { FrozenAcceptor } from "./frozen.ts";
import { GrpcServer } from "./grpc/grpc_server.ts";
import { type ListedServer, methodsOf } from "./grpc/services.ts";
import type { SigningPace } from "./grpc/sign.ts";
import { answerUnless, isLocal, isStale, leaderless } from "./led.ts";
import { securedBy, type ServersTls } from "./server_tls.ts";
import { View } from "./view.ts";

/** The interval of a leader's heartbeats, and the time for which its silence means nothing. */
const HEARTBEAT_MS = 70;
const UNNOTICED_MS = 500;

interface DevServerOptions {
  readonly number: number;
  readonly host: string;
  readonly cluster: Cluster;
  readonly engine: Engine;
  /** For both ports; absent: plain text. */
  readonly tls: ServersTls | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly pace: SigningPace;
  /** With the server's own node and local services. */
  readonly world: World;
  readonly acl: Acl;
  readonly methods: AuthMethods;
  /** Adds the endpoints and rights of servers. */
  readonly extend: (api: Api) => void;
  readonly listed: () => readonly ListedServer[];
}

export class DevServer {
  readonly host: string;
  readonly #options: DevServerOptions;
  readonly #acceptors: readonly [http: FrozenAcceptor, grpc: FrozenAcceptor];
  readonly #api: Api;
  readonly #http: ApiListener;
  readonly #grpc: GrpcServer;
  readonly #view: View;

  constructor(options: DevServerOptions) {
    const { engine, tls, host, clock, cluster, world, acl, methods, random, pace, log } = options;
    this.#options = options;
    this.#view = new View(world, clock);
    this.host = host;
    const { http, grpc } = tls
      ? { http: securedBy(engine, tls, ["h2", "http/1.1"]), grpc: securedBy(engine, tls, ["h2"]) }
      : { http: engine, grpc: engine };
    this.#acceptors = [new FrozenAcceptor(http), new FrozenAcceptor(grpc)];
    this.#api = createApi((api) => {
      this.#markStale(api);
      options.extend(api);
    });
    this.#http = new ApiListener({
      acceptor: this.#acceptors[0],
      clock,
      host,
      whyRefused: refusePages(host, { isSecure: tls !== undefined }),
      fetch: (request) => this.#answer(request),
      onError: (message) => log.warn("embedded server failed", { host, error: message }),
    });
    this.#grpc = new GrpcServer({
      acceptor: this.#acceptors[1],
      clock,
      host,
      methods: methodsOf({
        world,
        acl,
        methods,
        random,
        pace,
        get hasLeader() {
          return cluster.leader !== undefined;
        },
        listed: options.listed,
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

  /** The data of its stale reads. */
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
    // Last: writes that a hung server has not applied yet are never applied.
    this.thaw();
  }

  /** Connections stay; nothing is read or answered any more, pings neither. */
  freeze(): void {
    for (const acceptor of this.#acceptors) acceptor.freeze();
  }

  thaw(): void {
    for (const acceptor of this.#acceptors) acceptor.thaw();
  }

  async #answer(request: Request): Promise<Response> {
    if (isLocal(request)) return await this.#api.fetch(request, this.#options.world);
    return isStale(request) ? await this.#answerStale(request) : await this.#answerLed(request);
  }

  async #answerLed(request: Request): Promise<Response> {
    const { cluster, world } = this.#options;
    const from = this.host;
    if (cluster.leader === undefined && request.method !== "GET") await this.#leader();
    if (cluster.leader === undefined) return leaderless(request, { wasLed: false, from });
    const reply = await answerUnless(
      (request) => this.#api.fetch(request, world),
      request,
      (fn) => cluster.onLed((led) => led || fn()),
    );
    return reply ?? leaderless(request, { wasLed: true, from });
  }

  async #answerStale(request: Request): Promise<Response> {
    const { cluster, number, world } = this.#options;
    for (;;) {
      // The leader is never behind.
      const seen = cluster.leader === number ? world : this.#view.world;
      const reply = await answerUnless(
        (request) => this.#api.fetch(request, seen),
        request,
        (fn) => this.#view.onReplaced(fn),
      );
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

  /**
   * Sets the headers of stale reads: whether there is a leader, and the time since its last contact.
   */
  #markStale(api: Api): void {
    const { cluster, random, number } = this.#options;
    api.use(async (call, next) => {
      await next();
      if (!has(call, "stale")) return;
      call.header("X-Consul-Effective-Consistency", "stale");
      if (cluster.leader === number) return;
      const { leaderlessMs } = cluster;
      // A follower notices only after a while.
      call.header("X-Consul-Knownleader", String(leaderlessMs < UNNOTICED_MS));
      const lastContactMs = Math.floor(leaderlessMs + random() * HEARTBEAT_MS);
      call.header("X-Consul-Lastcontact", String(lastContactMs));
    });
  }
}
