/**
 * Real Consul servers in one cluster, with TLS on HTTPS and gRPC, each on a loopback address of its own
 * and all on the same ports, as a proxy expects them.
 *
 * @module
 */

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AgentCalls } from "../../test/kit/agent_calls.ts";
import { freePorts, loopbackHost } from "../../test/kit/ports.ts";
import { eventually, Process, runToEnd } from "../../test/kit/process.ts";
import { ensureConsul } from "../consul.ts";

export interface ClusterOptions {
  readonly servers: number;
  /** Of one address to one server; Consul's own limit is 200. */
  readonly connectionsPerClient: number;
}

const READY_MS = 120_000;

interface Ports {
  readonly http: number;
  readonly https: number;
  readonly grpcTls: number;
  readonly server: number;
  readonly serf: number;
}

export class FleetServer extends AgentCalls {
  readonly host: string;
  readonly address: string;
  readonly managementToken = "";
  readonly #ports: Ports;
  readonly #process: Process;

  constructor(host: string, parts: { readonly ports: Ports; readonly process: Process }) {
    super();
    this.host = host;
    this.address = `${host}:${parts.ports.http}`;
    this.#ports = parts.ports;
    this.#process = parts.process;
  }

  get output(): string {
    return this.#process.output;
  }

  /** Ends without a word. */
  async kill(): Promise<void> {
    this.#process.kill("SIGKILL");
    await this.#process.exited;
  }

  /** Resident memory, in MiB. */
  async memory(): Promise<number> {
    const status = await readFile(`/proc/${this.#process.pid}/status`, "utf8");
    return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024;
  }

  /** Seconds on the processor so far. */
  async cpu(): Promise<number> {
    const stat = await readFile(`/proc/${this.#process.pid}/stat`, "utf8");
    const columns = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return (Number(columns[11]) + Number(columns[12])) / 100;
  }

  async connections(): Promise<{ readonly https: number; readonly grpc: number }> {
    const bytes = this.host.split(".").reverse().map((byte) => hex(Number(byte), 2)).join("");
    const lines = (await readFile("/proc/net/tcp", "utf8")).split("\n")
      .map((line) => line.trim().split(/\s+/));
    const open = (port: number) =>
      lines.filter((columns) => columns[1] === `${bytes}:${hex(port, 4)}` && columns[3] === "01")
        .length;
    return { https: open(this.#ports.https), grpc: open(this.#ports.grpcTls) };
  }
}

export interface Cluster extends AsyncDisposable {
  readonly servers: readonly FleetServer[];
  readonly caFile: string;
  readonly httpPort: number;
  readonly grpcPort: number;
  /** The one that leads now. */
  leader(): Promise<FleetServer>;
}

export async function startCluster(options: ClusterOptions): Promise<Cluster> {
  const consul = await ensureConsul();
  const directory = await mkdtemp(join(tmpdir(), "postern-fleet-"));
  const net = loopbackHost().split(".").slice(0, 3).join(".");
  const hosts = Array.from({ length: options.servers }, (_, at) => `${net}.${at + 1}`);
  const [http = 0, https = 0, grpcTls = 0, server = 0, serf = 0] = await freePorts(`${net}.1`, 5);
  const ports: Ports = { http, https, grpcTls, server, serf };
  const tool = { cwd: directory, timeoutMs: 60_000 };
  await runToEnd(consul, ["tls", "ca", "create"], tool);
  await runToEnd(consul, ["tls", "cert", "create", "-server", "-dc", "dc1"], tool);
  const servers = await Promise.all(hosts.map(async (host) => {
    const file = join(directory, `${host}.json`);
    await writeFile(
      file,
      JSON.stringify(configuration(host, { hosts, ports, directory, options })),
    );
    const name = `consul ${host}`;
    const process = new Process(consul, ["agent", `-config-file=${file}`], { name });
    return new FleetServer(host, { ports, process });
  }));
  const leader = async () => {
    for (const server of servers) {
      const reply = await server.call("GET", "/v1/status/leader").catch(() => undefined);
      const found = reply && servers.find(({ host }) => reply.body === `"${host}:${ports.server}"`);
      if (found) return found;
    }
    throw new Error("nobody leads");
  };
  await eventually("the servers have a leader and roots", async () => {
    await leader();
    for (const server of servers) await server.get("/v1/agent/connect/ca/roots");
    const { Healthy } = await (await leader()).get<{ Healthy: boolean }>(
      "/v1/operator/autopilot/health",
    );
    if (!Healthy) throw new Error("not healthy yet");
    return true;
  }, { timeoutMs: READY_MS, everyMs: 200 });
  return {
    servers,
    caFile: join(directory, "consul-agent-ca.pem"),
    httpPort: https,
    grpcPort: grpcTls,
    leader,
    async [Symbol.asyncDispose]() {
      await Promise.all(servers.map((server) => server.kill()));
      await rm(directory, { recursive: true, force: true });
    },
  };
}

function configuration(
  host: string,
  { hosts, ports, directory, options }: {
    readonly hosts: readonly string[];
    readonly ports: Ports;
    readonly directory: string;
    readonly options: ClusterOptions;
  },
): Record<string, unknown> {
  return {
    ...{ node_name: `server-${host}`, datacenter: "dc1", server: true, log_level: "warn" },
    ...{ bind_addr: host, client_addr: host, data_dir: join(directory, host) },
    ...{ bootstrap_expect: hosts.length, retry_join: hosts.map((peer) => `${peer}:${ports.serf}`) },
    ...{ retry_interval: "1s", disable_update_check: true, connect: { enabled: true } },
    performance: { raft_multiplier: 1 },
    limits: { http_max_conns_per_client: options.connectionsPerClient },
    ports: {
      ...{ dns: -1, grpc: -1, serf_wan: -1 },
      ...{ http: ports.http, https: ports.https, grpc_tls: ports.grpcTls },
      ...{ server: ports.server, serf_lan: ports.serf },
    },
    tls: {
      defaults: {
        ca_file: join(directory, "consul-agent-ca.pem"),
        cert_file: join(directory, "dc1-server-consul-0.pem"),
        key_file: join(directory, "dc1-server-consul-0-key.pem"),
        verify_incoming: false,
      },
    },
  };
}

function hex(value: number, digits: number): string {
  return value.toString(16).toUpperCase().padStart(digits, "0");
}
