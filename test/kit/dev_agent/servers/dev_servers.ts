/**
 * Consul servers in memory, without a client agent: one world seen through several front ends, each on an
 * address of its own with the same ports, as `WatchServers` gives addresses without ports.
 *
 * @module
 */

import { type Log, ProxyError, silentLog } from "../../../../src/base/mod.ts";
import { AgentServices, socketProbes } from "../../../../src/dev/catalog/agent_services.ts";
import { CatalogNode } from "../../../../src/dev/catalog/catalog.ts";
import type { Api } from "../../../../src/dev/http/api.ts";
import { newWorld, withAgent, type World, type WorldOptions } from "../../../../src/dev/world.ts";
import { type Engine, runtimeEngine } from "../../../../src/net/mod.ts";
import type { AclOptions } from "../acl/acl.ts";
import { aclsFor, aclTerms } from "../acl/acl_of.ts";
import { addAclRoutes } from "../acl/acl_routes.ts";
import { AuthMethods } from "../acl/auth_methods.ts";
import { guard } from "../acl/guard.ts";
import { addLoginRoutes } from "../acl/login_routes.ts";
import { addRegistrationRoutes } from "../catalog/registration_routes.ts";
import { addSessionRoutes } from "../catalog/session_routes.ts";
import { Sessions } from "../catalog/sessions.ts";
import { Cluster, type ClusterTiming, CONSUL_TIMING, type ServerState } from "./cluster.ts";
import { DevServer } from "./dev_server.ts";
import { SigningPace } from "./grpc/sign.ts";
import { makeServersTls, type ServersTls } from "./server_tls.ts";

interface DevServersOptions extends Omit<WorldOptions, "acl"> {
  readonly log?: Log;
  /** Sockets; this runtime's by default. */
  readonly engine?: Engine;
  /** Absent: ACLs are off. */
  readonly acl?: AclOptions;
  /** Addresses, one server each; 127.0.0.1 and those after it by default. */
  readonly hosts?: readonly string[];
  /** How many where no addresses are given: 1 to 5, 3 by default. */
  readonly count?: number;
  /** 0, the default: one that is free on every address. */
  readonly httpPort?: number;
  readonly grpcPort?: number;
  /** Both ports with a certificate of {@link DevServers.tls}'s CA; absent: plain text. */
  readonly secure?: boolean;
  /** The times that a real cluster takes, by default. */
  readonly timing?: Partial<ClusterTiming>;
}

const VIRTUAL_NODE = "dev-virtual";
const PORT_ATTEMPTS = 20;
/** Certificates that Consul's built-in CA signs in a second. */
const SIGNS_PER_SECOND = 50;

export class DevServers implements AsyncDisposable {
  readonly servers: readonly DevServer[];
  /** The part of the servers' TLS that clients need; absent: it is plain text. */
  readonly tls: Pick<ServersTls, "caPem" | "serverName"> | undefined;
  readonly #cluster: Cluster;
  readonly #worlds: readonly World[];
  readonly #methods: AuthMethods;
  readonly #sessions: Sessions;
  readonly #options: DevServersOptions;
  readonly #engine: Engine;
  /** The world with the node that has the registrations of {@link world}. */
  #virtual: World | undefined;
  #closed = false;

  constructor(options: DevServersOptions) {
    const { clock, random, log = silentLog } = options;
    const engine = this.#engine = options.engine ?? runtimeEngine();
    this.#options = options;
    const hosts = options.hosts ?? firstHosts(options.count ?? 3);
    const [firstHost = "127.0.0.1", ...otherHosts] = hosts;
    const timing = { ...CONSUL_TIMING, ...options.timing };
    const cluster = this.#cluster = new Cluster(hosts.length, { clock, timing });
    const pace = new SigningPace(clock, SIGNS_PER_SECOND);
    const first = this.#newWorld(firstHost);
    this.#worlds = [
      first,
      ...otherHosts.map((address, at) =>
        withAgent(first, {
          options: this.#terms,
          engine,
          agent: { name: nodeName(at + 1), address },
        })
      ),
    ];
    const sessions = this.#sessions = new Sessions(clock);
    cluster.onLed((led) => led ? sessions.restart() : sessions.pause());
    const aclOf = aclsFor(options.acl);
    const acl = aclOf(first);
    const methods = this.#methods = new AuthMethods(acl, clock);
    const extend = (api: Api) => {
      if (options.acl) guard(api, aclOf);
      addAclRoutes(api, aclOf);
      addLoginRoutes(api, { methods, aclOf });
      addSessionRoutes(api, { sessions, aclOf });
      const onNodeRemoved = (name: string) => sessions.destroyOn(name);
      addRegistrationRoutes(api, { aclOf, onNodeRemoved });
    };
    const tls = options.secure ? makeServersTls(first.datacenter, clock.now()) : undefined;
    this.tls = tls;
    const listed = () =>
      cluster.listed.flatMap((number) => {
        const world = this.#worlds[number];
        const host = hosts[number];
        return world && host !== undefined ? [{ id: world.services.node.record.id, host }] : [];
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
        acl,
        methods,
        extend,
        listed,
      })
    );
  }

  /** The world with a node that has no agent; services are registered there. */
  get world(): World {
    return this.#virtual ??= this.#withVirtualNode();
  }

  /** The name of the node in {@link world}. */
  get node(): string {
    return this.world.services.node.record.name;
  }

  /** The HTTP port, the same on every server. */
  get httpPort(): number {
    return this.servers[0]?.httpPort ?? 0;
  }

  /** The gRPC port, the same on every server. */
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

  get closed(): boolean {
    return this.#closed;
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

  /** `fn` is called whenever a leader is found or lost. Returns how to stop. */
  onLed(fn: (leader: number | undefined) => void): () => void {
    return this.#cluster.onLed(() => fn(this.leader));
  }

  stateOf(server: number): ServerState {
    return this.#cluster.stateOf(server);
  }

  /**
   * Like kill -9: its connections break. Default polls of the others end with 500 if it led, and the next
   * one leads after `electionMs`; it leaves the lists of servers after `unlistMs`.
   */
  kill(server: number): void {
    this.#at(server).stop();
    this.#cluster.set(server, "stopped");
  }

  /** Like SIGSTOP: connections stay and are accepted, and nothing is answered. */
  hang(server: number): void {
    if (this.stateOf(server) !== "running") return;
    this.#at(server).freeze();
    this.#cluster.set(server, "hung");
  }

  /** After {@link hang}: requests that came meanwhile are answered. */
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

  /** Another server leads at once; after {@link loseQuorum}, any. */
  elect(): void {
    this.#cluster.elect();
  }

  /** There is no leader until {@link elect}. */
  loseQuorum(): void {
    this.#cluster.loseQuorum();
  }

  /**
   * Stale reads of a server that does not lead show the data of `lagMs` ago from now on; 0 ends it.
   */
  lag(server: number, lagMs: number): void {
    this.#at(server).view.lag(lagMs);
  }

  #at(server: number): DevServer {
    const found = this.servers[server];
    if (!found) throw new RangeError(`there is no server ${server}`);
    return found;
  }

  get #terms(): WorldOptions {
    return { ...this.#options, acl: aclTerms(this.#options.acl) };
  }

  #newWorld(address: string): World {
    return newWorld(this.#terms, this.#engine, { name: nodeName(0), address });
  }

  #withVirtualNode(): World {
    const [world] = this.#worlds;
    if (!world) throw new RangeError("there are no servers");
    const { store, catalog, config, datacenter } = world;
    const { clock, probes = socketProbes(this.#engine, clock) } = this.#options;
    const node = catalog.add(
      new CatalogNode(store, {
        id: "",
        name: VIRTUAL_NODE,
        address: this.hosts[0] ?? "",
        datacenter,
        taggedAddresses: null,
        meta: { "synthetic-node": "true" },
        hasAgent: false,
      }),
    );
    return { ...world, services: new AgentServices({ clock, probes, config, node }) };
  }

  /** The world of a server that has just been started: the trust and the rights, and no data. */
  #nothing(server: DevServer): World {
    const [first] = this.#worlds;
    const { ca, ...world } = this.#newWorld(server.host);
    ca.stop();
    world.store.rewind(1);
    return { ...world, ca: first?.ca ?? ca, services: server.view.world.services };
  }

  close(): void {
    this.#closed = true;
    this.#cluster.stop();
    this.#sessions.pause();
    this.#methods.stop();
    this.#virtual?.services.stop();
    for (const { services, ca } of this.#worlds) {
      services.stop();
      ca.stop();
    }
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
