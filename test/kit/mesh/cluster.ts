/**
 * Real Consul servers without any agent: one or three, each on a loopback address of its own and all on
 * the same ports, as proxies without an agent expect. A {@link Mesh} like the others, so that stories of
 * a mesh with an agent run here, too: services are entries of the catalog, each on a node of its own,
 * and their sidecars ask the servers.
 *
 * @module
 */

import { randomUUID } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { peer } from "../../../scripts/peers.ts";
import { connectedTo } from "../process/connections.ts";
import { type Agents, Mesh, type MeshService, type RunOptions, type StoryAgent } from "./mesh.ts";
import { freePort, freePorts, loopbackHost } from "../process/ports.ts";
import type { Postern } from "../process/postern.ts";
import { eventually, Process, runToEnd } from "../process/process.ts";

const READY_TIMEOUT_MS = 120_000;
export const DATACENTER = "dc1";
/** The name in servers' certificates. */
export const SERVER_NAME = `server.${DATACENTER}.consul`;

export interface ClusterOptions extends StoryAgent {
  /** 1 or 3. */
  readonly servers?: 1 | 3;
  /** gRPC and HTTPS with certificates; the plain HTTP port stays for the story's own requests. */
  readonly tls?: boolean;
  /** Any other setting of the servers' configuration files. */
  readonly config?: Readonly<Record<string, unknown>>;
}

interface ClusterTls {
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
}

interface Ports {
  readonly http: number;
  readonly https: number;
  readonly grpc: number;
  readonly grpcTls: number;
  readonly server: number;
  readonly serf: number;
}

interface Member {
  host: string;
  readonly directory: string;
  process: Process | undefined;
  hung: boolean;
}

/** Starts servers and waits until all of them are well. */
export async function startCluster(options: ClusterOptions = {}): Promise<Cluster> {
  const directory = await mkdtemp(join(tmpdir(), "postern-cluster-"));
  const own = loopbackHost();
  const [http, https, grpc, grpcTls, server, serf] = await freePorts(own, 6) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const ports = { http, https, grpc, grpcTls, server, serf };
  const cluster = new Cluster(options, { directory, host: own, ports });
  try {
    await cluster.start();
  } catch (error) {
    await cluster[Symbol.asyncDispose]();
    throw error;
  }
  return cluster;
}

/**
 * For stories that hold beside servers alone as they do beside an agent: TLS, and three servers where it
 * matters.
 */
export const SERVERS: Agents = {
  start: ({ clientAgent: _none, ...options } = {}) =>
    startCluster({ ...options, tls: true, servers: 1 }),
};

export class Cluster extends Mesh {
  /** Where services and sidecars listen. */
  readonly host: string;
  readonly managementToken: string;
  readonly members: readonly Member[];
  readonly #options: ClusterOptions;
  readonly #directory: string;
  readonly #ports: Ports;
  #tls: ClusterTls | undefined;
  /** The ports of registered services: the application's and the sidecar's. */
  readonly #registered = new Map<string, { readonly port: number; readonly sidecarPort: number }>();

  constructor(
    options: ClusterOptions,
    place: { readonly directory: string; readonly host: string; readonly ports: Ports },
  ) {
    super();
    this.#options = options;
    this.#directory = place.directory;
    this.#ports = place.ports;
    this.host = place.host;
    this.managementToken = options.acl ? randomUUID() : "";
    this.members = Array.from({ length: options.servers ?? 1 }, (_, index) => ({
      host: loopbackHost(),
      directory: join(place.directory, `server-${index}`),
      process: undefined,
      hung: false,
    }));
  }

  /** The address of a running server. */
  get address(): string {
    const alive = this.members.find((member) => member.process && !member.hung);
    return `${(alive ?? this.members[0])?.host}:${this.#ports.http}`;
  }

  get grpcPort(): number {
    return this.#tls ? this.#ports.grpcTls : this.#ports.grpc;
  }

  get httpPort(): number {
    return this.#tls ? this.#ports.https : this.#ports.http;
  }

  get tls(): ClusterTls {
    if (!this.#tls) throw new Error("Cannot give TLS files: started without { tls: true }");
    return this.#tls;
  }

  async start(): Promise<void> {
    if (this.#options.tls && !this.#tls) this.#tls = await this.#makeCertificates();
    await Promise.all(this.members.map((_, index) => this.startServer(index)));
    await this.waitForHealth();
  }

  /** Ends all servers at once; they remember. */
  async kill(): Promise<void> {
    await Promise.all(this.members.map((_, index) => this.killServer(index)));
  }

  /** `empty`: with nothing on its disk. */
  async startServer(index: number, options: { readonly empty?: boolean } = {}): Promise<void> {
    const member = this.#member(index);
    if (options.empty) await rm(member.directory, { recursive: true, force: true });
    const file = join(this.#directory, `server-${index}.json`);
    await writeFile(file, JSON.stringify(this.#configuration(index)));
    member.hung = false;
    member.process = new Process(peer("consul"), ["agent", `-config-file=${file}`], {
      name: `consul server ${index}`,
      // It counts the days of a certificate by the calendar: not all have 24 hours elsewhere.
      env: { TZ: "UTC" },
    });
  }

  async wipeCluster(): Promise<void> {
    await this.kill();
    await Promise.all(this.members.map((_, index) => this.startServer(index, { empty: true })));
    await this.waitForHealth();
  }

  /** Ends at once. */
  async killServer(index: number): Promise<void> {
    const member = this.#member(index);
    const { process } = member;
    member.process = undefined;
    process?.kill("SIGKILL");
    await process?.exited;
  }

  /** Stops a server in good order (SIGTERM); the others keep a place for it. */
  async stopServer(index: number): Promise<void> {
    const member = this.#member(index);
    const { process } = member;
    member.process = undefined;
    await process?.stop();
  }

  /** It leaves in good order, and another one at another address takes its place. */
  async replaceServer(index: number): Promise<void> {
    const member = this.#member(index);
    await this.put("/v1/agent/leave", undefined, { address: `${member.host}:${this.#ports.http}` });
    await member.process?.waitExit({ timeoutMs: READY_TIMEOUT_MS });
    member.host = loopbackHost();
    await this.startServer(index, { empty: true });
  }

  /** Keeps its connections and sends nothing any more. */
  hang(index: number): void {
    const member = this.#member(index);
    member.hung = true;
    member.process?.kill("SIGSTOP");
  }

  resume(index: number): void {
    const member = this.#member(index);
    member.process?.kill("SIGCONT");
    member.hung = false;
  }

  /** Which server leads; `undefined`: none that runs. Those that are left name the old one for a while. */
  async leader(): Promise<number | undefined> {
    const leader = await this.get<string>("/v1/status/leader");
    const index = this.members.findIndex(({ host, process, hung }) =>
      process !== undefined && !hung && leader.startsWith(`${host}:`)
    );
    return index < 0 ? undefined : index;
  }

  /** Which one a process has its gRPC connection to. */
  async serverOf({ pid }: { readonly pid: number }): Promise<number> {
    return await eventually("it is connected to a server", async () => {
      const grpc = (await connectedTo(pid)).filter(({ port }) => port === this.grpcPort);
      const index = this.members.findIndex((member) =>
        grpc.some(({ host }) => host === member.host)
      );
      return index < 0 ? undefined : index;
    });
  }

  async waitForLeader(): Promise<number> {
    return await eventually("there is a leader", () => this.leader(), {
      timeoutMs: READY_TIMEOUT_MS,
      everyMs: 100,
    });
  }

  /** All servers that are wanted run, vote and lag in nothing. */
  async waitForHealth(): Promise<void> {
    try {
      await eventually("the servers are well", () => this.#isWell(), {
        timeoutMs: READY_TIMEOUT_MS,
        everyMs: 100,
      });
    } catch (error) {
      const tails = this.members.map(({ process }) => process?.tail() ?? "").join("\n");
      throw new Error(tails, { cause: error });
    }
  }

  /** Flags that make a proxy ask these servers, or those of `members` alone. */
  serverFlags(members: readonly Member[] = this.members): readonly string[] {
    return [
      ...["-servers", members.map(({ host }) => host).join(",")],
      ...["-grpc-port", `${this.grpcPort}`, "-http-port", `${this.httpPort}`],
      ...this.#tls
        ? ["-ca-file", this.#tls.caFile, "-tls-server-name", SERVER_NAME]
        : ["-tls-disabled"],
    ];
  }

  /** `id`: of a service or of its sidecar. */
  nodeOf(id: string): string {
    return `vm-${id.replace(/-sidecar-proxy$/, "")}`;
  }

  /** Entries of the catalog on a node of the service's own; registering again changes them. Its id. */
  override async register(service: MeshService): Promise<string> {
    const { name, id = `${name}-1`, host = this.host, upstreams = [], config, meta = {} } = service;
    const before = this.#registered.get(id);
    const port = service.port ?? before?.port ?? await freePort(host);
    const sidecarPort = service.sidecarPort ?? before?.sidecarPort ?? await freePort(host);
    this.#registered.set(id, { port, sidecarPort });
    const node = { Node: this.nodeOf(id), Address: host, NodeMeta: { "synthetic-node": "true" } };
    await this.put("/v1/catalog/register", {
      ...node,
      Service: { ID: id, Service: name, Address: host, Port: port, Meta: meta },
    });
    await this.put("/v1/catalog/register", {
      ...node,
      Service: {
        Kind: "connect-proxy",
        ID: `${id}-sidecar-proxy`,
        Service: `${name}-sidecar-proxy`,
        Address: host,
        Port: sidecarPort,
        Meta: meta,
        Proxy: {
          DestinationServiceName: name,
          DestinationServiceID: id,
          LocalServiceAddress: host,
          LocalServicePort: port,
          ...(config ? { Config: config } : {}),
          Upstreams: upstreams.map((upstream) => ({
            DestinationName: upstream.name,
            DestinationType: upstream.type ?? "service",
            ...(upstream.datacenter ? { Datacenter: upstream.datacenter } : {}),
            LocalBindAddress: host,
            LocalBindPort: upstream.port,
            ...(upstream.config ? { Config: upstream.config } : {}),
          })),
        },
      },
    });
    return id;
  }

  /** The sidecar alone, or the service and its sidecar. */
  override async deregister(id: string): Promise<void> {
    const Node = this.nodeOf(id);
    await this.put("/v1/catalog/deregister", { Node, ServiceID: id });
    if (!isSidecar(id)) {
      await this.put("/v1/catalog/deregister", { Node, ServiceID: `${id}-sidecar-proxy` });
    }
  }

  /** A sidecar, or the service beside it, gets a check that no program runs. */
  override async setMaintenance(id: string, enable: boolean): Promise<void> {
    await this.put("/v1/catalog/register", {
      Node: this.nodeOf(id),
      Address: this.host,
      SkipNodeUpdate: true,
      Check: {
        CheckID: `maintenance-${id}`,
        Name: "maintenance",
        ServiceID: isSidecar(id) ? id : `${id}-sidecar-proxy`,
        Status: enable ? "critical" : "passing",
      },
    });
  }

  override run(words: readonly string[], options: RunOptions = {}): Postern {
    const at = words.findIndex((word) => word === "-sidecar-for" || word === "-proxy-id");
    const id = words[at + 1];
    const servers = options.args?.includes("-servers") ? [] : this.serverFlags();
    const own = at < 0 || id === undefined ? [] : [...servers, "-node", this.nodeOf(id)];
    return super.run([...words, ...own], {
      ...options,
      env: { CONSUL_HTTP_ADDR: "", ...options.env },
    });
  }

  override runRegistering(id: string, args: readonly string[]): Postern {
    return super.runRegistering(id, [...args, ...this.serverFlags(), "-node", this.nodeOf(id)]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    await rm(this.#directory, { recursive: true, force: true });
  }

  #member(index: number): Member {
    const member = this.members[index];
    if (!member) throw new Error(`There is no server ${index}`);
    return member;
  }

  async #isWell(): Promise<boolean> {
    if (this.members.some(({ process }) => process?.ended)) throw new Error("A server ended");
    const reply = await this.call("GET", "/v1/operator/autopilot/health");
    if (reply.status !== 200) return false;
    const health = JSON.parse(reply.body) as {
      readonly Healthy: boolean;
      readonly Servers: readonly { readonly ID: string; readonly Voter: boolean }[];
    };
    if (!health.Healthy || !health.Servers.every(({ Voter }) => Voter)) return false;
    // A server that was just stopped, or came back as another, is listed as well for some seconds.
    const running = this.members.filter(({ process, hung }) => process && !hung);
    const ids = await Promise.all(running.map(({ host }) => this.#idOf(host)));
    const listed = health.Servers.map(({ ID }) => ID);
    if (listed.sort().join() !== ids.sort().join()) return false;
    const roots = await this.call("GET", "/v1/connect/ca/roots");
    if (!roots.body.includes("BEGIN CERTIFICATE")) return false;
    if (!this.managementToken) return true;
    return (await this.call("GET", "/v1/acl/token/self")).status === 200;
  }

  /** The id of the server at `host`. */
  async #idOf(host: string): Promise<string> {
    const path = "/v1/agent/self";
    const { body } = await this.call("GET", path, { address: `${host}:${this.#ports.http}` });
    return (JSON.parse(body) as { Config: { NodeID: string } }).Config.NodeID;
  }

  #configuration(index: number): Record<string, unknown> {
    const { host, directory } = this.#member(index);
    const { http, https, grpc, grpcTls, server, serf } = this.#ports;
    const { defaultIntentionPolicy, config } = this.#options;
    const tls = this.#tls;
    const files = tls && {
      ca_file: tls.caFile,
      cert_file: tls.certFile,
      key_file: tls.keyFile,
    };
    return {
      node_name: `server-${index}-${host.replaceAll(".", "-")}`,
      datacenter: DATACENTER,
      data_dir: directory,
      bind_addr: host,
      client_addr: host,
      server: true,
      log_level: "warn",
      bootstrap_expect: this.members.length,
      retry_join: this.members.map((member) => `${member.host}:${serf}`),
      retry_interval: "1s",
      disable_update_check: true,
      // Loopback answers at once: the fastest raft timing is safe.
      performance: { raft_multiplier: 1 },
      autopilot: { server_stabilization_time: "1s" },
      connect: { enabled: true },
      ports: {
        dns: -1,
        serf_wan: -1,
        http,
        grpc,
        server,
        serf_lan: serf,
        https: tls ? https : -1,
        grpc_tls: tls ? grpcTls : -1,
      },
      ...files && {
        tls: { grpc: { ...files, verify_incoming: false }, https: { ...files } },
      },
      ...this.managementToken && {
        acl: {
          enabled: true,
          default_policy: "deny",
          tokens: { initial_management: this.managementToken, agent: this.managementToken },
        },
      },
      ...defaultIntentionPolicy && { default_intention_policy: defaultIntentionPolicy },
      ...config,
    };
  }

  async #makeCertificates(): Promise<ClusterTls> {
    const options = { cwd: this.#directory, timeoutMs: 60_000 };
    await runToEnd(peer("consul"), ["tls", "ca", "create"], options);
    await runToEnd(
      peer("consul"),
      ["tls", "cert", "create", "-server", "-dc", DATACENTER],
      options,
    );
    const server = join(this.#directory, `${DATACENTER}-server-consul-0`);
    return {
      caFile: join(this.#directory, "consul-agent-ca.pem"),
      certFile: `${server}.pem`,
      keyFile: `${server}-key.pem`,
    };
  }
}

function isSidecar(id: string): boolean {
  return id.endsWith("-sidecar-proxy");
}
