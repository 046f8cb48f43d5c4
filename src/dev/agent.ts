/**
 * A Consul-like agent in memory, behind the same HTTP interface: for `postern dev`, the demo and the
 * tests. It answers as a single server of Consul 1.22.7 does; what it leaves out it refuses by name.
 *
 * @module
 */

import { silentLog } from "../base/mod.ts";
import { type Engine, runtimeEngine } from "../net/mod.ts";
import type { State, World } from "./http/call.ts";
import { DevWorld } from "./dev_world.ts";
import { type Fault, Faults, needsReply, spoil } from "./http/faults.ts";
import type { DevReply, DevRequest } from "./http/dev_exchange.ts";
import { HttpServer } from "./http/http_server.ts";
import { route } from "./http/router.ts";
import { type DevAgentOptions, newWorld } from "./world.ts";

export class DevAgent extends DevWorld {
  readonly #options: DevAgentOptions;
  readonly #server: HttpServer;
  readonly #engine: Engine;
  readonly #faults = new Faults();
  readonly #host: string;
  #world: World;
  #requests = 0;

  constructor(options: DevAgentOptions) {
    super();
    this.#options = options;
    this.#host = options.host ?? "127.0.0.1";
    const log = options.log ?? silentLog;
    this.#engine = options.engine ?? runtimeEngine();
    this.#server = new HttpServer({
      engine: this.#engine,
      clock: options.clock,
      host: this.#host,
      handle: (request) => this.#handle(request),
      onError: (message) => log.warn("embedded agent failed", { error: message }),
    });
    this.#world = newWorld(this.#options, this.#engine);
  }

  /** `http://127.0.0.1:PORT`. */
  get address(): string {
    return `http://${this.#host}:${this.#server.port}`;
  }

  get port(): number {
    return this.#server.port;
  }

  /** Open connections and requests so far, for tests of a client's budget. */
  get load(): { readonly connections: number; readonly requests: number } {
    return { connections: this.#server.connections, requests: this.#requests };
  }

  /** Listens again on the same port after {@link stop}. */
  start(): Promise<void> {
    return this.#server.start(this.#server.port || (this.#options.port ?? 0));
  }

  /** Like a kill: every connection breaks, data stays. */
  stop(): void {
    this.#server.stop();
  }

  /**
   * Stops and starts. `forget`: as a `-dev` agent comes back, with nothing, its trust domain and CA
   * included. `rewind`: the same data, counted from a low index again.
   */
  async restart(
    options: { readonly forget?: boolean; readonly rewind?: boolean } = {},
  ): Promise<void> {
    this.stop();
    if (options.forget) this.reset();
    if (options.rewind) this.#state.store.rewind(12);
    await this.start();
  }

  /** Forgets everything; parked polls stay parked until their time is up. */
  reset(): void {
    this.#stopState();
    this.#world = newWorld(this.#options, this.#engine);
  }

  close(): void {
    this.#stopState();
    this.#server.stop();
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.close();
    return Promise.resolve();
  }

  /** The next `times` requests whose `METHOD /target` matches get the fault. */
  breakNext(on: RegExp, fault: Fault, times = 1): void {
    this.#faults.add(on, fault, times);
  }

  /** Ends all planned faults. */
  mend(): void {
    this.#faults.clear();
  }

  protected override get world(): World {
    return this.#world;
  }

  get #state(): State {
    return this.#world.state;
  }

  async #handle(request: DevRequest): Promise<DevReply> {
    this.#requests++;
    const search = request.query.size > 0 ? `?${request.query}` : "";
    const fault = this.#faults.take(`${request.method} ${request.path}${search}`);
    if (!fault) return await route(this.#world, request);
    const reply: DevReply = { status: 200, headers: {}, body: "" };
    return spoil(fault, needsReply(fault) ? await route(this.#world, request) : reply);
  }

  #stopState(): void {
    this.#state.services.stop();
    this.#state.ca.stop();
    this.#state.sessions.pause();
    this.#state.methods.stop();
  }
}

/** Starts an agent that listens before this resolves. */
export async function startDevAgent(options: DevAgentOptions): Promise<DevAgent> {
  const agent = new DevAgent(options);
  await agent.start();
  return agent;
}
