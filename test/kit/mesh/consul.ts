/**
 * A real Consul for a test: one process on a loopback address of its own, in a temporary directory, with
 * the options of a story (ACLs, HTTPS with client certificates, client agents, a second datacenter).
 * Every wait has a deadline; disposing ends the process and removes the directory.
 *
 * @module
 */

import { randomUUID } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { peer } from "../../../scripts/peers.ts";
import {
  agentConfiguration,
  type ConsulOptions,
  type ConsulTls,
  type Ports,
} from "./consul_config.ts";
import { type Agents, Mesh } from "./mesh.ts";
import { freePorts, loopbackHost } from "../process/ports.ts";
import { eventually, Process, runToEnd } from "../process/process.ts";

const READY_TIMEOUT_MS = 120_000;

/** Starts an agent and waits until it answers from a leader that has begun all of its work. */
export async function startConsul(options: ConsulOptions = {}): Promise<Consul> {
  const directory = await mkdtemp(join(tmpdir(), "postern-consul-"));
  const host = loopbackHost();
  const [http, https, grpc, server, serfLan, serfWan] = await freePorts(host, 6);
  const ports = { http, https, grpc, server, serfLan, serfWan } as Ports;
  const consul = new Consul(options, { directory, host, ports });
  try {
    await consul.start();
  } catch (error) {
    await consul[Symbol.asyncDispose]();
    throw error;
  }
  return consul;
}

/** For stories that hold on every agent; a client agent ends its server with it. */
export const CONSUL: Agents = {
  async start({ clientAgent = false, ...options } = {}) {
    const server = await startConsul(options);
    return clientAgent ? await startConsul({ clientOf: server, endsServer: true }) : server;
  },
};

export class Consul extends Mesh {
  readonly host: string;
  readonly datacenter: string;
  /** Empty without ACLs. */
  readonly managementToken: string;
  readonly #options: ConsulOptions;
  readonly #directory: string;
  readonly #ports: Ports;
  #nodeName = `node-${randomUUID().slice(0, 8)}`;
  #process: Process | undefined;
  #tls: ConsulTls | undefined;

  constructor(
    options: ConsulOptions,
    place: { readonly directory: string; readonly host: string; readonly ports: Ports },
  ) {
    super();
    const origin = options.clientOf ?? options.secondaryOf;
    this.#options = options;
    this.#directory = place.directory;
    this.#ports = place.ports;
    this.host = place.host;
    this.datacenter = options.datacenter ?? options.clientOf?.datacenter ??
      (options.secondaryOf ? "dc2" : "dc1");
    this.managementToken = origin?.managementToken ?? (options.acl ? randomUUID() : "");
  }

  /** `host:port` of the HTTP API. */
  get address(): string {
    return `${this.host}:${this.#ports.http}`;
  }

  /** `host:port` of the xDS gRPC server, for Envoy. */
  get grpcAddress(): string {
    return `${this.host}:${this.#ports.grpc}`;
  }

  /** `host:port` that other agents join over the WAN. */
  get wanAddress(): string {
    return `${this.host}:${this.#ports.serfWan}`;
  }

  get lanAddress(): string {
    return `${this.host}:${this.#ports.serfLan}`;
  }

  /** The TLS files of a caller of the HTTPS API. */
  get tls(): ConsulTls {
    if (!this.#tls) throw new Error("Cannot give TLS files: started without { tls: true }");
    return this.#tls;
  }

  get pid(): number {
    if (!this.#process) throw new Error("Consul is not running");
    return this.#process.pid;
  }

  /** The output of the agent since it was last started. */
  get output(): string {
    return this.#process?.output ?? "";
  }

  async start(): Promise<void> {
    if (this.#options.tls && !this.#tls) this.#tls = await this.#makeCertificates();
    const file = join(this.#directory, "agent.json");
    await writeFile(file, JSON.stringify(this.#configuration()));
    this.#process = new Process(peer("consul"), ["agent", `-config-file=${file}`], {
      name: `consul ${this.#nodeName}`,
      // It counts the days of a certificate by the calendar: not all have 24 hours elsewhere.
      env: { TZ: "UTC" },
    });
    try {
      await eventually("Consul is ready", () => this.#isReady(), {
        timeoutMs: READY_TIMEOUT_MS,
        everyMs: 100,
      });
    } catch (error) {
      throw new Error(this.#process.tail(), { cause: error });
    }
  }

  /** Ends the agent. SIGTERM lets it leave, SIGKILL leaves its instances in the catalog. */
  async stop(signal: "SIGTERM" | "SIGKILL" = "SIGTERM"): Promise<void> {
    const stopping = this.#process;
    this.#process = undefined;
    if (!stopping) return;
    stopping.kill("SIGCONT");
    // One signal only: a second SIGTERM would cut the leaving short.
    if (signal === "SIGKILL") stopping.kill(signal);
    await (signal === "SIGKILL" ? stopping.exited : stopping.stop());
  }

  /** Its instances stay in the catalog. */
  async kill(): Promise<void> {
    await this.stop("SIGKILL");
  }

  /** Another agent at the same address: new node, nothing remembered. */
  async replace(): Promise<void> {
    await this.stop("SIGKILL");
    await this.wipe();
    this.#nodeName = `node-${randomUUID().slice(0, 8)}`;
    await this.start();
  }

  /** Wipes the agent; with a client agent its server is wiped while the agent runs on. */
  async wipeCluster(): Promise<void> {
    if (this.#options.clientOf) return await this.#options.clientOf.wipeCluster();
    await this.replace();
  }

  /** Forgets services, tokens and caches of a stopped agent. */
  async wipe(): Promise<void> {
    await rm(join(this.#directory, "data"), { recursive: true, force: true });
  }

  /** Connections that are open to the HTTP port, as the agent's own limit counts them. */
  async openConnections(): Promise<number> {
    const hex = this.#ports.http.toString(16).toUpperCase().padStart(4, "0");
    const bytes = this.host.split(".").reverse().map((byte) =>
      Number(byte).toString(16).toUpperCase().padStart(2, "0")
    );
    const local = `${bytes.join("")}:${hex}`;
    const lines = (await readFile("/proc/net/tcp", "utf8")).split("\n");
    // Columns: slot, local address, remote address, state (01: established).
    return lines.map((line) => line.trim().split(/\s+/)).filter((columns) =>
      columns[1] === local && columns[3] === "01"
    ).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop("SIGKILL");
    await rm(this.#directory, { recursive: true, force: true });
    if (this.#options.endsServer) await this.#options.clientOf?.[Symbol.asyncDispose]();
  }

  async #isReady(): Promise<boolean> {
    if (this.#process?.ended) throw new Error("Consul ended");
    const leader = await this.call("GET", "/v1/status/leader");
    if (leader.status !== 200 || leader.body.length < 4) return false;
    const roots = await this.call("GET", "/v1/agent/connect/ca/roots");
    if (roots.status !== 200 || !roots.body.includes("BEGIN CERTIFICATE")) return false;
    if (this.managementToken && (await this.call("GET", "/v1/acl/token/self")).status !== 200) {
      return false;
    }
    // A new leader gives nodes their health last: before that it takes no intention yet.
    const node = await this.call("GET", `/v1/health/node/${this.#nodeName}`);
    if (node.status !== 200) return false;
    const checks = JSON.parse(node.body) as { CheckID: string; Status: string }[];
    return checks.some(({ CheckID, Status }) => CheckID === "serfHealth" && Status === "passing");
  }

  #configuration(): Record<string, unknown> {
    return agentConfiguration(this.#options, {
      nodeName: this.#nodeName,
      directory: this.#directory,
      host: this.host,
      datacenter: this.datacenter,
      managementToken: this.managementToken,
      ports: this.#ports,
      tls: this.#tls,
    });
  }

  get primaryDatacenter(): string {
    return this.#options.secondaryOf?.datacenter ?? this.datacenter;
  }

  async #makeCertificates(): Promise<ConsulTls> {
    const options = { cwd: this.#directory, timeoutMs: 60_000 };
    const consul = peer("consul");
    await runToEnd(consul, ["tls", "ca", "create"], options);
    await runToEnd(consul, [
      ...["tls", "cert", "create", "-server", "-dc", this.datacenter],
      `-additional-ipaddress=${this.host}`,
    ], options);
    await runToEnd(consul, ["tls", "cert", "create", "-client", "-dc", this.datacenter], options);
    const client = join(this.#directory, `${this.datacenter}-client-consul-0`);
    return {
      caFile: join(this.#directory, "consul-agent-ca.pem"),
      certFile: `${client}.pem`,
      keyFile: `${client}-key.pem`,
      address: `https://${this.host}:${this.#ports.https}`,
    };
  }
}
