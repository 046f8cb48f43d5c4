/**
 * Consul servers in memory, without a client agent: one world seen through several front ends, each on an
 * address of its own with the same ports, as `WatchServers` gives addresses without ports.
 *
 * @module
 */

import { ProxyError, silentLog } from "../../base/mod.ts";
import { type Engine, runtimeEngine } from "../../net/mod.ts";
import { DevWorld } from "../dev_world.ts";
import type { World } from "../http/call.ts";
import { type DevAgentOptions, newWorld, withNode } from "../world.ts";
import { Cluster, type ClusterTiming, CONSUL_TIMING } from "./cluster.ts";
import { DevServer } from "./dev_server.ts";
import { SigningPace } from "./grpc/sign.ts";

export interface DevServersOptions
  extends Omit<DevAgentOptions, "host" | "port" | "asClientAgent"> {
  /** Addresses, one server each; 127.0.0.1 and those after it by default. */
  readonly hosts?: readonly string[];
  /** How many where no addresses are given: 1 to 5, 3 by default. */
  readonly count?: number;
  /** 0, the default: one that is free on every address. */
  readonly httpPort?: number;
  readonly grpcPort?: number;
  /** What takes time in a real cluster; as long as there by default. */
  readonly timing?: Partial<ClusterTiming>;
  /** What all servers together sign in a second; 50 by default. */
  readonly signsPerSecond?: number;
}

const PORT_ATTEMPTS = 20;
/** What Consul's built-in CA takes. */
const SIGNS_PER_SECOND = 50;

export class DevServers extends DevWorld implements AsyncDisposable {
  readonly servers: readonly DevServer[];
  readonly #cluster: Cluster;
  readonly #worlds: readonly World[];

  constructor(options: DevServersOptions) {
    super();
    const { clock, random, log = silentLog } = options;
    const engine: Engine = options.engine ?? runtimeEngine();
    const hosts = options.hosts ?? firstHosts(options.count ?? 3);
    const timing = { ...CONSUL_TIMING, ...options.timing };
    const cluster = this.#cluster = new Cluster(hosts.length, { clock, timing });
    const pace = new SigningPace(clock, options.signsPerSecond ?? SIGNS_PER_SECOND);
    const first = newWorld({ ...options, host: hosts[0] ?? "127.0.0.1" }, engine, nodeName(0));
    this.#worlds = hosts.map((host, number) =>
      number === 0 ? first : withNode(first, { nodeName: nodeName(number), host, options, engine })
    );
    const listed = () =>
      cluster.listed.flatMap((number) => {
        const world = this.#worlds[number];
        const host = hosts[number];
        return world && host !== undefined ? [{ id: world.state.services.node.id, host }] : [];
      });
    this.servers = this.#worlds.map((world, number) =>
      new DevServer({
        number,
        host: hosts[number] ?? "",
        cluster,
        engine,
        clock,
        random,
        log,
        pace,
        world,
        listed,
      })
    );
  }

  protected override get world(): World {
    const [first] = this.#worlds;
    if (!first) throw new RangeError("there are no servers");
    return first;
  }

  /** Of every server. */
  get httpPort(): number {
    return this.servers[0]?.httpPort ?? 0;
  }

  /** Of every server. */
  get grpcPort(): number {
    return this.servers[0]?.grpcPort ?? 0;
  }

  get hosts(): readonly string[] {
    return this.servers.map((server) => server.host);
  }

  /** Number of the server that leads; undefined while there is none. */
  get leader(): number | undefined {
    return this.#cluster.leader;
  }

  /** Listens, with the same ports on every address; port 0 takes such as are free on all of them. */
  async start(httpPort: number, grpcPort: number): Promise<void> {
    for (let attempt = 1;; attempt++) {
      try {
        return await this.#startAt(httpPort, grpcPort);
      } catch (error) {
        for (const server of this.servers) server.stop();
        const another = isTaken(error) && (httpPort === 0 || grpcPort === 0);
        if (!another || attempt === PORT_ATTEMPTS) throw error;
      }
    }
  }

  async #startAt(httpPort: number, grpcPort: number): Promise<void> {
    let [http, grpc] = [httpPort, grpcPort];
    for (const server of this.servers) {
      await server.start(http, grpc);
      [http, grpc] = [server.httpPort, server.grpcPort];
    }
  }

  close(): void {
    this.#cluster.stop();
    this.world.state.ca.stop();
    for (const { state } of this.#worlds) state.services.stop();
    for (const server of this.servers) server.stop();
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.close();
    return Promise.resolve();
  }
}

/** Starts servers that listen before this resolves. */
export async function startDevServers(options: DevServersOptions): Promise<DevServers> {
  const servers = new DevServers(options);
  try {
    await servers.start(options.httpPort ?? 0, options.grpcPort ?? 0);
  } catch (error) {
    servers.close();
    throw error;
  }
  return servers;
}

function isTaken(error: unknown): boolean {
  return error instanceof ProxyError &&
    (error.cause as { code?: unknown } | undefined)?.code === "EADDRINUSE";
}

function firstHosts(count: number): readonly string[] {
  return Array.from({ length: count }, (_, number) => `127.0.0.${number + 1}`);
}

function nodeName(number: number): string {
  return `server-${number + 1}`;
}
