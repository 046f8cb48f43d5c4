/**
 * A mesh without an agent on three embedded servers, over TLS. Its sidecars run on the engine that runs the test.
 *
 * @module
 */

import { randomUUID } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { systemClock, systemRandom } from "../../../src/base/mod.ts";
import { registerService } from "../dev_agent/control.ts";
import type { ClusterTiming } from "../dev_agent/servers/cluster.ts";
import { type DevServers, startDevServers } from "../dev_agent/servers/dev_servers.ts";
import { Mesh, type MeshService, type RunOptions, type StoryAgent } from "./mesh.ts";
import { loopbackHost } from "../process/ports.ts";
import { OWN_ENGINE, type Postern } from "../process/postern.ts";

type DevClusterOptions = Omit<StoryAgent, "clientAgent"> & {
  /** Absent: shorter than in a real cluster, since stories wait for it. */
  readonly timing?: Partial<ClusterTiming>;
};

const QUICK: Partial<ClusterTiming> = { electionMs: 500, unlistMs: 1_000, relistMs: 200 };

export class DevCluster extends Mesh {
  /** For what no operator can do: kill, hang and restart servers. */
  readonly servers: DevServers;
  readonly host: string;
  readonly managementToken: string;
  override readonly engine = OWN_ENGINE;

  readonly #caFile: string;

  private constructor(servers: DevServers, caFile: string, managementToken: string) {
    super();
    this.servers = servers;
    this.#caFile = caFile;
    this.host = loopbackHost();
    this.managementToken = managementToken;
  }

  /** Without an intention nothing is allowed. */
  static async start(options: DevClusterOptions = {}): Promise<DevCluster> {
    const { acl = false, defaultIntentionPolicy = "deny", timing } = options;
    const managementToken = acl ? randomUUID() : "";
    const tokens = [{ secretId: managementToken, management: true }];
    const servers = await startDevServers({
      clock: systemClock,
      random: systemRandom,
      defaultIntentionPolicy,
      secure: true,
      hosts: [loopbackHost(), loopbackHost(), loopbackHost()],
      timing: { ...QUICK, ...timing },
      ...(acl ? { acl: { defaultPolicy: "deny", tokens } } : {}),
    });
    const caFile = join(await mkdtemp(join(tmpdir(), "postern-servers-")), "ca.pem");
    await writeFile(caFile, servers.tls?.caPem ?? "");
    return new DevCluster(servers, caFile, managementToken);
  }

  /** Address of the server that leads, or of one that runs. */
  get address(): string {
    return this.servers.address.replace(/^https:\/\//, "");
  }

  protected override get callTls(): { readonly ca: string; readonly servername: string } {
    const { caPem = "", serverName = "" } = this.servers.tls ?? {};
    return { ca: caPem, servername: serverName };
  }

  override async register(service: MeshService): Promise<string> {
    const body = await this.registrationOf(service);
    registerService(this.servers.world, body);
    return body.ID;
  }

  override deregister(serviceId: string): Promise<void> {
    this.servers.world.services.deregister(serviceId);
    return Promise.resolve();
  }

  override run(words: readonly string[], options: RunOptions = {}): Postern {
    const { hosts, httpPort, grpcPort, node } = this.servers;
    const ports = ["-http-port", `${httpPort}`, "-grpc-port", `${grpcPort}`];
    const tls = ["-ca-file", this.#caFile, "-tls-server-name", this.callTls.servername];
    const flags = ["-servers", hosts.join(","), ...tls, ...ports, "-node", node];
    return super.run([...words, ...flags], {
      ...options,
      env: { CONSUL_HTTP_ADDR: "", ...options.env },
    });
  }

  async start(): Promise<void> {
    for (const server of this.servers.servers.keys()) await this.servers.restart(server);
  }

  /** Kills all servers. */
  kill(): Promise<void> {
    for (const server of this.servers.servers.keys()) this.servers.kill(server);
    return Promise.resolve();
  }

  wipeCluster(): Promise<void> {
    return Promise.reject(new Error("Servers in memory cannot lose their CA"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.servers[Symbol.asyncDispose]();
    await rm(dirname(this.#caFile), { recursive: true, force: true });
  }
}
