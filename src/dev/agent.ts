/** An agent in memory, as a single server of Consul 1.22.7, for `postern dev` and tests. @module */

import { type Log, silentLog } from "../base/mod.ts";
import { type Engine, runtimeEngine } from "../net/mod.ts";
import type { Api } from "./http/api.ts";
import { createApi } from "./routes/create_api.ts";
import { ApiListener, refusePages } from "./http/listener.ts";
import { newWorld, type World, type WorldOptions } from "./world.ts";

export interface DevAgentOptions extends WorldOptions {
  readonly log?: Log;
  readonly host?: string;
  /** Default 0: a free port. */
  readonly port?: number;
  /** Engine for sockets; default: this runtime's. */
  readonly engine?: Engine;
  readonly extend?: (api: Api) => void;
}

export class DevAgent implements AsyncDisposable {
  readonly #newWorld: () => World;
  readonly #firstPort: number;
  readonly #host: string;
  readonly #listener: ApiListener;
  #world: World;

  constructor(options: DevAgentOptions) {
    const { clock, host = "127.0.0.1", log = silentLog, engine = runtimeEngine() } = options;
    this.#host = host;
    this.#firstPort = options.port ?? 0;
    this.#newWorld = () => newWorld(options, engine, { name: "dev", address: host });
    this.#world = this.#newWorld();
    const api = createApi(options.extend);
    this.#listener = new ApiListener({
      acceptor: engine,
      clock,
      host,
      fetch: (request) => api.fetch(request, this.#world),
      whyRefused: refusePages(host, { isSecure: false }),
      onError: (message) => log.warn("embedded agent failed", { error: message }),
    });
  }

  /** Its state, to be read and changed without a request. */
  get world(): World {
    return this.#world;
  }

  /** `http://127.0.0.1:PORT`. */
  get address(): string {
    return `http://${this.#host}:${this.port}`;
  }

  get port(): number {
    return this.#listener.port;
  }

  get connections(): number {
    return this.#listener.connections;
  }

  /** Listens; after {@link stop} on the same port. */
  start(): Promise<void> {
    return this.#listener.start(this.port || this.#firstPort);
  }

  /** Breaks every connection; data stays. */
  stop(): void {
    this.#listener.stop();
  }

  /** Drops all data and its CA; pending requests go on waiting. */
  reset(): void {
    this.#end(this.#world);
    this.#world = this.#newWorld();
  }

  close(): void {
    this.#end(this.#world);
    this.stop();
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.close();
    return Promise.resolve();
  }

  #end({ services, ca }: World): void {
    services.stop();
    ca.stop();
  }
}

/** Starts an agent that listens before this resolves. */
export async function startDevAgent(options: DevAgentOptions): Promise<DevAgent> {
  const agent = new DevAgent(options);
  await agent.start();
  return agent;
}
