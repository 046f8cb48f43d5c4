/**
 * Consul servers in memory, without a client agent: one world seen through several front ends, each on an
 * address of its own with the same ports, as `WatchServers` gives addresses without ports.
 *
 * @module
 */

import { ProxyError, silentLog } from "../../base/mod.ts";
import { type Engine, runtimeEngine } from "../../net/mod.ts";
import type { LocalServices } from "../catalog/local_services.ts";
import { DevWorld } from "../dev_world.ts";
import type { World } from "../http/call.ts";
import { type DevAgentOptions, newWorld, servicesOn, withNode } from "../world.ts";
import { Cluster, type ClusterTiming, CONSUL_TIMING, type ServerState } from "./cluster.ts";
import { DevServer } from "./dev_server.ts";
import { SigningPace } from "./grpc/sign.ts";
import { makeServersTls, type ServersTls } from "./server_tls.ts";

export interface DevServersOptions
  extends Omit<DevAgentOptions, "host" | "port" | "asClientAgent"> {
  /** Addresses, one server each; 127.0.0.1 and those after it by default. */
  readonly hosts?: readonly string[];
  /** How many where no addresses are given: 1 to 5, 3 by default. */
  readonly count?: number;
  /** 0, the default: one that is free on every address. */
  readonly httpPort?: number;
  readonly grpcPort?: number;
  /** Both ports with a certificate of {@link DevServers.tls}'s CA; plain text if absent. */
  readonly secure?: boolean;
  /** What takes time in a real cluster; as long as there by default. */
  readonly timing?: Partial<ClusterTiming>;
  /** What all servers together sign in a second; 50 by default. */
  readonly signsPerSecond?: number;
}

const VIRTUAL_NODE = "dev-virtual";
const PORT_ATTEMPTS = 20;
/** What Consul's built-in CA takes. */
const SIGNS_PER_SECOND = 50;

export class DevServers extends DevWorld implements AsyncDisposable {
  readonly servers: readonly DevServer[];
  /** What callers need to know of the servers' TLS; absent: it is plain text. */
  readonly tls: Pick<ServersTls, "caPem" | "serverName"> | undefined;
  readonly #cluster: Cluster;
  readonly #worlds: readonly World[];
  /** Made when it is first needed. */
  #virtual: LocalServices | undefined;
  readonly #options: DevServersOptions;
  readonly #engine: Engine;
  #closed = false;

  constructor(options: DevServersOptions) {
    super();
    this.#options = options;
    const { clock, random, log = silentLog } = options;
    const engine = this.#engine = options.engine ?? runtimeEngine();
    const hosts = options.hosts ?? firstHosts(options.count ?? 3);
    const timing = { ...CONSUL_TIMING, ...options.timing };
    const cluster = this.#cluster = new Cluster(hosts.length, { clock, timing });
    const pace = new SigningPace(clock, options.signsPerSecond ?? SIGNS_PER_SECOND);
    const first = newWorld({ ...options, host: hosts[0] ?? "127.0.0.1" }, engine, nodeName(0));
    this.#worlds = hosts.map((host, number) =>
      number === 0 ? first : withNode(first, { nodeName: nodeName(number), host, options, engine })
    );
    cluster.onLed((led) => led ? first.state.sessions.restart() : first.state.sessions.pause());
    const tls = options.secure ? makeServersTls(first.datacenter, clock.now()) : undefined;
    this.tls = tls;
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
        tls,
        clock,
        random,
        log,
        pace,
        world,
        listed,
      })
    );
  }

  /** Of the node without an agent that has what {@link registerService} registers. */
  get node(): string {
    return this.services.node.name;
  }

  protected override get services(): LocalServices {
    return this.#virtual ??= this.#virtualNode();
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

  /** `http://127.0.0.1:PORT` of one that runs, the leader where there is one. */
  get address(): string {
    const running = this.servers.findIndex((_, number) => this.stateOf(number) === "running");
    return this.#at(this.leader ?? Math.max(running, 0)).address;
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

  /** `fn` is called with the leader, or with that there is none any more. Returns how to stop. */
  onLed(fn: (leader: number | undefined) => void): () => void {
    return this.#cluster.onLed(() => fn(this.leader));
  }

  /** `running`, `hung` or `stopped`. */
  stateOf(server: number): ServerState {
    return this.#cluster.stateOf(server);
  }

  /**
   * Like kill -9: its connections break. Of the others, default polls end with 500 if it led, and the next
   * one leads after `electionMs`; it leaves the lists of servers after `unlistMs`.
   */
  kill(server: number): void {
    this.#at(server).stop();
    this.#cluster.set(server, "stopped");
  }

  /** Like SIGSTOP: connections stay and are taken, and nobody hears anything. */
  hang(server: number): void {
    if (this.stateOf(server) !== "running") return;
    this.#at(server).freeze();
    this.#cluster.set(server, "hung");
  }

  /** After {@link hang}: what came meanwhile is answered. */
  resume(server: number): void {
    if (this.stateOf(server) !== "hung") return;
    this.#at(server).thaw();
    this.#cluster.set(server, "running");
  }

  /**
   * Kills it unless that has happened, and starts it on the same ports. `empty`: stale reads find nothing
   * there for `emptyMs`, with headers that look good, as Consul does it.
   */
  async restart(server: number, options: { readonly empty?: boolean } = {}): Promise<void> {
    if (this.stateOf(server) !== "stopped") this.kill(server);
    const started = this.#at(server);
    if (options.empty) {
      started.view.beginEmpty(this.#nothing(started), this.#cluster.timing.emptyMs);
    }
    await started.start(this.httpPort, this.grpcPort);
    this.#cluster.set(server, "running");
  }

  /** Another one leads at once; after {@link loseQuorum}, any. */
  elect(): void {
    this.#cluster.elect();
  }

  /** Nobody leads until {@link elect}. */
  loseQuorum(): void {
    this.#cluster.loseQuorum();
  }

  /** Stale reads of a server that does not lead show what was `lagMs` ago from now on; 0 ends it. */
  lag(server: number, lagMs: number): void {
    this.#at(server).view.lag(lagMs);
  }

  #at(server: number): DevServer {
    const found = this.servers[server];
    if (!found) throw new RangeError(`there is no server ${server}`);
    return found;
  }

  #virtualNode(): LocalServices {
    const { datacenter, state } = this.world;
    const node = state.catalog.putNode({
      id: "",
      name: VIRTUAL_NODE,
      address: this.hosts[0] ?? "",
      datacenter,
      taggedAddresses: null,
      meta: { "synthetic-node": "true" },
      hasAgent: false,
    });
    return servicesOn(node, state, { options: this.#options, engine: this.#engine });
  }

  /** What a server knows that has just been started: who may ask and whom to trust, and nothing else. */
  #nothing(server: DevServer): World {
    const { state } = this.world;
    const { ca, ...world } = newWorld({ ...this.#options, host: server.host }, this.#engine).state;
    ca.stop();
    world.store.rewind(1);
    return { ...server.view.world, state: { ...world, ca: state.ca, acl: state.acl } };
  }

  get closed(): boolean {
    return this.#closed;
  }

  close(): void {
    this.#closed = true;
    this.#cluster.stop();
    this.world.state.ca.stop();
    this.world.state.sessions.pause();
    this.world.state.methods.stop();
    this.#virtual?.stop();
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
