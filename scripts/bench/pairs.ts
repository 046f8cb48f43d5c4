/**
 * Sidecar pairs under test: the application's side dials through `outbound`, which dials `inbound` over
 * mTLS, which dials the backend. Every proxy runs one worker. Sides of different programs may be joined.
 *
 * @module
 */

import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { freePort, freePorts } from "../../test/kit/process/ports.ts";
import { eventually } from "../../test/kit/process/process.ts";
import { type Consul, startConsul } from "../../test/kit/mesh/consul.ts";
import { posternCommand } from "../../test/kit/process/postern.ts";
import { peer } from "../peers.ts";
import { envoyInbound, envoyOutbound } from "./envoy_config.ts";
import { Program } from "./program.ts";
import { get, HOST, type Site, startNginx } from "./site.ts";

export interface Side {
  readonly pid: number;
  readonly program: Program;
  /** The port for traffic. */
  readonly port: number;
  readonly adminPort?: number;
}

export interface Pair {
  readonly name: string;
  readonly inbound: Side;
  readonly outbound: Side;
  stop(): Promise<void>;
}

/** Starts the listener in front of the backend. */
export type StartInbound = (site: Site) => Promise<Side>;
/** Starts the listener that applications dial, towards an inbound at `port`. */
export type StartOutbound = (site: Site, port: number) => Promise<Side>;

const HERE = dirname(fileURLToPath(import.meta.url));
const BUN = join(HERE, "..", "..", "node_modules", "bun", "bin", "bun.exe");
const YARDSTICK = join(HERE, "yardstick.ts");

let started = 0;

export async function startPair(
  site: Site,
  name: string,
  sides: { readonly inbound: StartInbound; readonly outbound: StartOutbound },
): Promise<Pair> {
  const inbound = await sides.inbound(site);
  const outbound = await sides.outbound(site, inbound.port);
  await answers(name, outbound, inbound);
  return pairOf(name, inbound, outbound);
}

function pairOf(name: string, inbound: Side, outbound: Side, more?: AsyncDisposable): Pair {
  return {
    name,
    inbound,
    outbound,
    async stop() {
      await Promise.all([inbound.program.stop("SIGKILL"), outbound.program.stop("SIGKILL")]);
      await more?.[Symbol.asyncDispose]();
    },
  };
}

async function answers(name: string, outbound: Side, inbound: Side): Promise<void> {
  try {
    await eventually(`${name} answers`, async () => {
      if (inbound.program.ended || outbound.program.ended) throw new Error("a side has ended");
      return (await get(outbound.port, "/small")).length === 100;
    }, { timeoutMs: 20_000 });
  } catch (error) {
    const tails = [inbound, outbound].map(({ program }) => program.output.slice(-2_000));
    throw new Error(`${error instanceof Error ? error.message : error}\n${tails.join("\n---\n")}`);
  }
}

interface PosternSettings {
  /** The command that starts it; {@link posternCommand} if absent. */
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  /** The protocol of the service; `tcp` if absent. */
  readonly protocol?: string;
  /** Declared besides the one that is used. */
  readonly moreUpstreams?: number;
  /** Around the requests of either side, as a configuration file names them. */
  readonly plugins?: readonly object[];
}

export function posternInbound(settings: PosternSettings = {}): StartInbound {
  return async (site) => {
    const port = await freePort(HOST);
    return await startPostern(site, port, settings, {
      service: "db",
      trustDomain: site.trustDomain,
      credentials: { ...filesOf(site.db), rootsFile: site.rootsFile },
      inbound: {
        bind: `${HOST}:${port}`,
        local: `${HOST}:${backendPort(site, settings.protocol)}`,
        ...protocolOf(settings),
        ...(settings.plugins ? { plugins: settings.plugins } : {}),
        // As below.
        localConnectTimeout: "60s",
        handshakeTimeout: "60s",
      },
      intentions: [{ source: "web", action: "allow" }],
    });
  };
}

export function posternOutbound(settings: PosternSettings = {}): StartOutbound {
  return async (site, target) => {
    const [port = 0, ...more] = await freePorts(HOST, 1 + (settings.moreUpstreams ?? 0));
    const upstream = (name: string, bind: number) => ({
      name,
      bind: `${HOST}:${bind}`,
      addresses: [`${HOST}:${target}`],
      identity: { service: "db" },
      ...protocolOf(settings),
      ...(settings.plugins ? { plugins: settings.plugins } : {}),
      // Thousands at once are the load here, not a fault.
      connectTimeout: "60s",
      maxConnections: 100_000,
      maxPending: 100_000,
      ...(protocolOf(settings).protocol ? { maxRequests: 100_000 } : {}),
    });
    return await startPostern(site, port, settings, {
      service: "web",
      trustDomain: site.trustDomain,
      credentials: { ...filesOf(site.web), rootsFile: site.rootsFile },
      upstreams: [upstream("db", port), ...more.map((bind, i) => upstream(`db-${i}`, bind))],
    });
  };
}

async function startPostern(
  site: Site,
  port: number,
  settings: PosternSettings,
  config: unknown,
): Promise<Side> {
  const name = `postern-${++started}`;
  const file = join(site.directory, `${name}.json`);
  writeFileSync(file, JSON.stringify(config));
  const adminPort = await freePort(HOST);
  const [command = "", ...first] = settings.command ?? posternCommand();
  const args = ["proxy", "-config", file, "-admin-bind", `${HOST}:${adminPort}`];
  const program = new Program(command, [...first, ...args, ...settings.args ?? []], {
    logFile: join(site.directory, `${name}.log`),
  });
  await eventually(`${name} is ready`, async () => {
    if (program.ended) throw new Error(`it ended: ${program.output.slice(-2_000)}`);
    return (await get(adminPort, "/ready")) !== undefined;
  }, { timeoutMs: 20_000 });
  return { pid: program.pid, program, port, adminPort };
}

function protocolOf({ protocol }: PosternSettings): { readonly protocol?: string } {
  return protocol === undefined ? {} : { protocol };
}

/** Where the application listens that speaks this. */
export function backendPort({ backend }: Site, protocol: string | undefined): number {
  return protocol === "http2" || protocol === "grpc" ? backend.http2Port : backend.port;
}

function filesOf({ certFile, keyFile }: { certFile: string; keyFile: string }) {
  return { certFile, keyFile };
}

export function nginxInbound(): StartInbound {
  return async (site) => {
    const port = await freePort(HOST);
    const program = startNginx(
      site.directory,
      `nginx-${++started}`,
      `
      stream {
        server {
          listen ${HOST}:${port} ssl backlog=8192;
          tcp_nodelay on;
          ssl_protocols TLSv1.3;
          ssl_certificate ${site.db.certFile};
          ssl_certificate_key ${site.db.keyFile};
          ssl_client_certificate ${site.rootsFile};
          ssl_verify_client on;
          ssl_session_tickets off;
          ssl_session_cache off;
          proxy_pass ${HOST}:${site.backend.port};
          proxy_timeout 1h;
        }
      }`,
    );
    return { pid: program.pid, program, port };
  };
}

export function nginxOutbound(): StartOutbound {
  return async (site, target) => {
    const port = await freePort(HOST);
    // No proxy_ssl_verify: it wants a DNS name, which mesh certificates lack.
    const program = startNginx(
      site.directory,
      `nginx-${++started}`,
      `
      stream {
        server {
          listen ${HOST}:${port} backlog=8192;
          tcp_nodelay on;
          proxy_pass ${HOST}:${target};
          proxy_timeout 1h;
          proxy_ssl on;
          proxy_ssl_protocols TLSv1.3;
          proxy_ssl_server_name on;
          proxy_ssl_name db;
          proxy_ssl_certificate ${site.web.certFile};
          proxy_ssl_certificate_key ${site.web.keyFile};
          proxy_ssl_session_reuse off;
        }
      }`,
    );
    return { pid: program.pid, program, port };
  };
}

export function yardstickInbound(): StartInbound {
  return async (site) => {
    const port = await freePort(HOST);
    return startYardstick(site, "inbound", [port, site.backend.port], site.db);
  };
}

export function yardstickOutbound(): StartOutbound {
  return async (site, target) => {
    const port = await freePort(HOST);
    return startYardstick(site, "outbound", [port, target], site.web);
  };
}

function startYardstick(
  site: Site,
  role: "inbound" | "outbound",
  ports: readonly [port: number, target: number],
  { certFile, keyFile }: { readonly certFile: string; readonly keyFile: string },
): Side {
  const program = new Program(BUN, [
    YARDSTICK,
    role,
    ...ports.map(String),
    certFile,
    keyFile,
    site.rootsFile,
  ], { logFile: join(site.directory, `yardstick-${++started}.log`) });
  return { pid: program.pid, program, port: ports[0] };
}

export function envoyInboundSide(options: { readonly resumption: boolean }): StartInbound {
  return async (site) => {
    const port = await freePort(HOST);
    return startEnvoy(site, port, envoyInbound(site, { port, ...options }));
  };
}

export function envoyOutboundSide(options: { readonly resumption: boolean }): StartOutbound {
  return async (site, target) => {
    const port = await freePort(HOST);
    return startEnvoy(site, port, envoyOutbound(site, { port, target, ...options }));
  };
}

export function startEnvoy(site: Site, port: number, config: unknown): Side {
  const name = `envoy-${++started}`;
  const file = join(site.directory, `${name}.json`);
  writeFileSync(file, JSON.stringify(config));
  const program = new Program(peer("envoy"), [
    ...[
      "-c",
      file,
      "--concurrency",
      "1",
      "--base-id",
      String(60_000 + process.pid % 5_000 + started),
    ],
    ...["-l", "warn"],
  ], { logFile: join(site.directory, `${name}.log`) });
  return { pid: program.pid, program, port };
}

/** Consul's own proxy, and Postern from the same agent, on an agent that ends with `close`. */
export interface ConsulMesh {
  startBuiltIn(): Promise<Pair>;
  /** `routes`: its service speaks HTTP, and so many stand in its router, of which the last takes all. */
  startPostern(routes?: number): Promise<Pair>;
  close(): Promise<void>;
}

export async function createConsulMesh(site: Site): Promise<ConsulMesh> {
  const agent = await startConsul();
  const built = peer("consul");
  const start = async (name: string, command: readonly string[], routes?: number) => {
    const [inPort = 0, outPort = 0, webPort = 0, adminIn = 0, adminOut = 0] = await freePorts(
      HOST,
      5,
    );
    // Services of its own: a shared name would mix the instances of several pairs.
    const number = ++started;
    await agent.intention(`web${number}`, `db${number}`, "allow");
    if (routes !== undefined) await routed(agent, `db${number}`, routes);
    const db = await agent.register({
      name: `db${number}`,
      host: HOST,
      port: site.backend.port,
      sidecarPort: inPort,
    });
    const web = await agent.register({
      name: `web${number}`,
      host: HOST,
      port: webPort,
      sidecarPort: webPort,
      upstreams: [{ name: `db${number}`, port: outPort, config: LIMITS }],
    });
    const side = (id: string, port: number, admin: number): Side => {
      const [program = "", ...words] = [...command, "-sidecar-for", id];
      const more = name === "postern" ? ["-admin-bind", `${HOST}:${admin}`] : [];
      const child = new Program(program, [...words, ...more], {
        logFile: join(site.directory, `${name}-${id}.log`),
        env: { CONSUL_HTTP_ADDR: agent.address, GOMAXPROCS: "1" },
      });
      return {
        pid: child.pid,
        program: child,
        port,
        ...(name === "postern" ? { adminPort: admin } : {}),
      };
    };
    const inbound = side(db, inPort, adminIn);
    const outbound = side(web, outPort, adminOut);
    await answers(name, outbound, inbound);
    return pairOf(name, inbound, outbound, deregistering(agent, [db, web]));
  };
  return {
    startBuiltIn: () => start("built-in", [built, "connect", "proxy"]),
    startPostern: (routes) => start("postern", [...posternCommand(), "proxy"], routes),
    close: () => agent[Symbol.asyncDispose](),
  };
}

async function routed(agent: Consul, Name: string, routes: number): Promise<void> {
  await agent.configEntry({ Kind: "service-defaults", Name, Protocol: "http" });
  const others = Array.from({ length: routes - 1 }, (_, index) => ({
    Match: { HTTP: { PathPrefix: `/route-${index}/` } },
    Destination: { Service: Name },
  }));
  const last = { Match: { HTTP: { PathPrefix: "/" } }, Destination: { Service: Name } };
  await agent.configEntry({ Kind: "service-router", Name, Routes: [...others, last] });
}

const LIMITS = { limits: { max_connections: 100_000, max_pending_requests: 100_000 } };

function deregistering(agent: Consul, ids: readonly string[]): AsyncDisposable {
  return {
    async [Symbol.asyncDispose]() {
      for (const id of ids) await agent.put(`/v1/agent/service/deregister/${id}`, undefined);
    },
  };
}
