/**
 * A mesh on the embedded agent: services registered as an operator would, and their sidecars as
 * processes of the real program, on the engine that runs the test.
 *
 * @module
 */

import { systemClock, systemRandom } from "../../src/base/mod.ts";
import { type DevAgent, type DevAgentOptions, startDevAgent } from "../../src/dev/mod.ts";
import { type EchoServer, type Place, startEcho } from "./echo.ts";
import { assertFlawless, type LoadResult } from "./load.ts";
import { OWN_ENGINE, type Postern, startPostern } from "./postern.ts";
import { freePort, loopbackHost } from "./ports.ts";

export interface MeshUpstream {
  readonly name: string;
  readonly port: number;
  readonly type?: "service" | "prepared_query";
  readonly config?: Readonly<Record<string, unknown>>;
}

export interface MeshService {
  readonly name: string;
  /** `NAME-1` if absent. */
  readonly id?: string;
  /** Where the application listens; a port where nobody does if absent. */
  readonly port?: number;
  readonly sidecarPort?: number;
  readonly upstreams?: readonly MeshUpstream[];
  readonly meta?: Readonly<Record<string, string>>;
  readonly config?: Readonly<Record<string, unknown>>;
}

export interface RunOptions {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

export class DevMesh {
  readonly agent: DevAgent;
  /** All of this mesh listens here. */
  readonly host: string;
  readonly #given = new Set<number>();

  private constructor(agent: DevAgent, host: string) {
    this.agent = agent;
    this.host = host;
  }

  /** No intention: nobody may. */
  static async start(options: Partial<DevAgentOptions> = {}): Promise<DevMesh> {
    const host = loopbackHost();
    const agent = await startDevAgent({
      clock: systemClock,
      random: systemRandom,
      host,
      defaultIntentionPolicy: "deny",
      ...options,
    });
    return new DevMesh(agent, host);
  }

  /** A free one, and never the same twice. */
  async place(): Promise<Place> {
    for (;;) {
      const port = await freePort(this.host);
      if (this.#given.has(port)) continue;
      this.#given.add(port);
      return { host: this.host, port };
    }
  }

  echo(greeting?: string): Promise<EchoServer> {
    return startEcho({ host: this.host, ...(greeting ? { greeting: `${greeting}\n` } : {}) });
  }

  /** Registers a service with its sidecar; registering again changes it. Its id. */
  async register(service: MeshService): Promise<string> {
    const { name, id = `${name}-1`, upstreams = [] } = service;
    this.agent.registerService({
      Name: name,
      ID: id,
      Address: this.host,
      Port: service.port ?? (await this.place()).port,
      Meta: service.meta ?? {},
      Connect: {
        SidecarService: {
          Port: service.sidecarPort ?? (await this.place()).port,
          // Nothing that could find the port closed before the sidecar is up.
          Checks: [{ Name: "alias", AliasService: id, Status: "passing" }],
          Proxy: {
            LocalServiceAddress: this.host,
            ...(service.config ? { Config: service.config } : {}),
            Upstreams: upstreams.map((upstream) => ({
              DestinationName: upstream.name,
              DestinationType: upstream.type ?? "service",
              LocalBindAddress: this.host,
              LocalBindPort: upstream.port,
              ...(upstream.config ? { Config: upstream.config } : {}),
            })),
          },
        },
      },
    });
    return id;
  }

  /** Starts `postern` with this mesh's agent; nothing is waited for. */
  run(words: readonly string[], options: RunOptions = {}): Postern {
    return runPostern([...words, ...options.args ?? []], {
      env: { CONSUL_HTTP_ADDR: this.agent.address, ...options.env },
    });
  }

  /** Starts the sidecar of a registered service and waits until it is ready. */
  async sidecar(serviceId: string, options: RunOptions = {}): Promise<Postern> {
    const words = ["proxy", "-sidecar-for", serviceId, "-admin-bind", "127.0.0.1:0"];
    return await ready(this.run(words, options));
  }

  /** Registers, and starts the sidecar. */
  async serve(service: MeshService, options: RunOptions = {}): Promise<Postern> {
    return await this.sidecar(await this.register(service), options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.agent.close();
  }
}

/** Any command of the program under test, on the engine that runs the test. */
export function runPostern(
  words: readonly string[],
  options: {
    readonly env?: Readonly<Record<string, string>>;
    readonly cwd?: string;
    readonly under?: readonly string[];
  } = {},
): Postern {
  return startPostern(words, { ...options, engine: OWN_ENGINE });
}

export async function ready(postern: Postern): Promise<Postern> {
  try {
    await postern.waitReady();
    return postern;
  } catch (error) {
    postern.kill("SIGKILL");
    throw error;
  }
}

export interface DevPairOptions {
  readonly mesh?: Partial<DevAgentOptions>;
  readonly web?: RunOptions;
  readonly db?: RunOptions;
  readonly webUpstream?: Partial<MeshUpstream>;
  readonly dbConfig?: Readonly<Record<string, unknown>>;
  readonly greeting?: string;
}

/** `web` calls `db` through two sidecars; allowed. */
export class DevPair {
  readonly mesh: DevMesh;
  readonly agent: DevAgent;
  readonly web: Postern;
  readonly db: Postern;
  readonly app: EchoServer;
  /** Where web's application reaches db. */
  readonly upstream: Place;
  /** db's public listener. */
  readonly public: Place;
  readonly #register: () => Promise<void>;

  private constructor(parts: {
    readonly mesh: DevMesh;
    readonly web: Postern;
    readonly db: Postern;
    readonly app: EchoServer;
    readonly upstream: Place;
    readonly public: Place;
    readonly register: () => Promise<void>;
  }) {
    this.mesh = parts.mesh;
    this.agent = parts.mesh.agent;
    this.web = parts.web;
    this.db = parts.db;
    this.app = parts.app;
    this.upstream = parts.upstream;
    this.public = parts.public;
    this.#register = parts.register;
  }

  static async start(options: DevPairOptions = {}): Promise<DevPair> {
    const mesh = await DevMesh.start(options.mesh);
    const app = await mesh.echo(options.greeting);
    const [upstream, inbound, webSidecar] = [
      await mesh.place(),
      await mesh.place(),
      await mesh.place(),
    ];
    const register = async () => {
      await mesh.register({
        name: "db",
        port: app.port,
        sidecarPort: inbound.port,
        ...(options.dbConfig ? { config: options.dbConfig } : {}),
      });
      await mesh.register({
        name: "web",
        sidecarPort: webSidecar.port,
        upstreams: [{ name: "db", port: upstream.port, ...options.webUpstream }],
      });
      mesh.agent.setIntention("web", "db", "allow");
    };
    await register();
    const started = await Promise.allSettled([
      mesh.sidecar("web-1", options.web),
      mesh.sidecar("db-1", options.db),
    ]);
    const [web, db] = started.map((start) => start.status === "fulfilled" && start.value);
    if (web && db) {
      return new DevPair({ mesh, web, db, app, upstream, public: inbound, register });
    }
    for (const start of started) {
      if (start.status === "fulfilled") start.value.kill("SIGKILL");
    }
    await Promise.all([app.close(), mesh[Symbol.asyncDispose]()]);
    throw started.find((start) => start.status === "rejected")?.reason;
  }

  /** Tells an agent that forgot everything all of it again. */
  async registerAgain(): Promise<void> {
    await this.#register();
  }

  /** Like {@link assertFlawless}, with what the sidecars complained about. */
  expectFlawless(result: LoadResult, options: { readonly atLeast: number }): void {
    try {
      assertFlawless(result, options);
    } catch (error) {
      const complaints = [this.web, this.db].map(({ output, process }) => {
        const lines = output.split("\n").filter((line) => /\[(WARN|ERROR)\]/.test(line));
        return `--- ${process.name} ---\n${lines.slice(-30).join("\n")}`;
      });
      throw new Error(`${error}\n${complaints.join("\n")}`, { cause: error });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const parts = [this.web, this.db, this.app, this.mesh];
    const ends = await Promise.allSettled(parts.map((part) => part[Symbol.asyncDispose]()));
    const failed = ends.find((end) => end.status === "rejected");
    if (failed?.status === "rejected") throw failed.reason;
  }
}
