/**
 * Services with sidecars on a real Consul: registration as an operator writes it, and the pair "web
 * calls db" that most stories start from.
 *
 * @module
 */

import type { Consul } from "./consul.ts";
import {
  assertFlawless,
  EchoClient,
  type EchoServer,
  type LoadResult,
  type Place,
  startEcho,
} from "./load.ts";
import { type Postern, startPostern } from "./postern.ts";
import { eventually, freePort, freePorts, Process } from "./process.ts";
import { peer } from "../../scripts/peers.ts";

export interface UpstreamOptions {
  readonly name: string;
  readonly port: number;
  readonly datacenter?: string;
  readonly type?: "service" | "prepared_query";
  readonly config?: Readonly<Record<string, unknown>>;
}

export interface ServiceOptions {
  readonly name: string;
  readonly id?: string;
  readonly host: string;
  /** Where the application listens. */
  readonly port: number;
  readonly sidecarPort: number;
  readonly upstreams?: readonly UpstreamOptions[];
  readonly meta?: Readonly<Record<string, string>>;
  readonly config?: Readonly<Record<string, unknown>>;
  /** Consul's own two checks, one of them a TCP check every 10 s, instead of a lenient one. */
  readonly defaultChecks?: boolean;
  /** Replaces the checks of the sidecar. */
  readonly checks?: readonly Readonly<Record<string, unknown>>[];
}

/** Registers a service and its sidecar; its id is `id`, else `NAME-1`. */
export async function registerService(agent: Consul, options: ServiceOptions): Promise<string> {
  const { name, host, port, sidecarPort } = options;
  const id = options.id ?? `${name}-1`;
  // Nothing that could find the port closed before the sidecar is up and say so a second later.
  const checks = options.checks ?? [{ Name: "alias", AliasService: id, Status: "passing" }];
  await agent.put("/v1/agent/service/register", {
    Name: name,
    ID: id,
    Address: host,
    Port: port,
    Meta: options.meta ?? {},
    Connect: {
      SidecarService: {
        Port: sidecarPort,
        ...(options.defaultChecks ? {} : { Checks: checks }),
        Proxy: {
          LocalServiceAddress: host,
          ...(options.config ? { Config: options.config } : {}),
          Upstreams: (options.upstreams ?? []).map((upstream) => ({
            DestinationName: upstream.name,
            DestinationType: upstream.type ?? "service",
            ...(upstream.datacenter ? { Datacenter: upstream.datacenter } : {}),
            LocalBindAddress: host,
            LocalBindPort: upstream.port,
            ...(upstream.config ? { Config: upstream.config } : {}),
          })),
        },
      },
    },
  });
  return id;
}

/** How a story starts a sidecar: Postern, or a peer that it must work with. */
export type StartSidecar = (agent: Consul, options: SidecarOptions) => Promise<AsyncDisposable>;

export interface SidecarOptions {
  readonly serviceId: string;
  readonly token?: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Words in front of the command, see {@link startPostern}. */
  readonly under?: readonly string[];
}

export async function posternSidecar(agent: Consul, options: SidecarOptions): Promise<Postern> {
  const postern = startPostern(
    [
      ...["proxy", "-sidecar-for", options.serviceId, "-admin-bind", "127.0.0.1:0"],
      ...(options.args ?? []),
    ],
    {
      env: {
        CONSUL_HTTP_ADDR: agent.address,
        ...(options.token ? { CONSUL_HTTP_TOKEN: options.token } : {}),
        ...options.env,
      },
      name: `postern ${options.serviceId}`,
      ...(options.under ? { under: options.under } : {}),
    },
  );
  try {
    await postern.waitReady();
  } catch (error) {
    postern.kill("SIGKILL");
    throw error;
  }
  return postern;
}

/** Registers a service whose application is `app` (none: it only calls) and starts its sidecar. */
export async function serve(
  agent: Consul,
  app: Place | undefined,
  service:
    & Omit<ServiceOptions, "host" | "port" | "sidecarPort">
    & Omit<SidecarOptions, "serviceId">,
): Promise<Postern> {
  const serviceId = await registerService(agent, {
    ...service,
    host: agent.host,
    port: app?.port ?? await freePort(agent.host),
    sidecarPort: await freePort(agent.host),
  });
  return await posternSidecar(agent, { ...service, serviceId });
}

/** The proxy that comes with Consul. */
export async function builtInSidecar(agent: Consul, options: SidecarOptions): Promise<Process> {
  const child = new Process(
    peer("consul"),
    ["connect", "proxy", "-sidecar-for", options.serviceId, ...(options.args ?? [])],
    {
      env: {
        CONSUL_HTTP_ADDR: agent.address,
        CONSUL_HTTP_TOKEN: options.token ?? agent.managementToken,
      },
      name: `consul connect proxy ${options.serviceId}`,
    },
  );
  await child.waitFor(/Starting listener: listener="public listener"/, { timeoutMs: 20_000 });
  return child;
}

let envoyBaseId = 100 + process.pid % 50_000;

/** Envoy, configured by Consul over xDS. */
export async function envoySidecar(agent: Consul, options: SidecarOptions): Promise<Process> {
  const adminPort = await freePort("127.0.0.1");
  const child = new Process(peer("consul"), [
    ...["connect", "envoy", "-sidecar-for", options.serviceId],
    ...["-http-addr", agent.address, "-grpc-addr", `http://${agent.grpcAddress}`],
    ...["-envoy-binary", peer("envoy"), "-ignore-envoy-compatibility"],
    ...["-admin-bind", `127.0.0.1:${adminPort}`],
    ...(options.token ? ["-token", options.token] : []),
    // Two Envoys with one base id refuse to run side by side.
    ...["--", "--base-id", String(envoyBaseId++), "--concurrency", "1", "-l", "info"],
  ], { name: `envoy ${options.serviceId}` });
  await child.waitFor(/starting workers/, { timeoutMs: 30_000 });
  return child;
}

export interface PairOptions {
  readonly web?: StartSidecar;
  readonly db?: StartSidecar;
  /** Where web is registered, if not where db is. */
  readonly webAgent?: Consul;
  /** A service-identity token each: needs ACLs. */
  readonly tokens?: boolean;
  /** Where db listens, instead of an echo server. */
  readonly app?: Place;
  readonly defaultChecks?: boolean;
  readonly sidecar?: Partial<SidecarOptions>;
  /** Registered but no intention written. */
  readonly noIntention?: boolean;
  readonly webUpstream?: Partial<UpstreamOptions>;
}

interface PairParts {
  readonly upstream: Place;
  readonly echo: EchoServer | undefined;
  readonly web: AsyncDisposable;
  readonly db: AsyncDisposable;
  readonly ports: { readonly webSidecar: number; readonly dbSidecar: number };
  readonly register: () => Promise<void>;
}

/** `web` calls `db` through two sidecars. */
export class Pair {
  /** Where web's application connects to reach db. */
  readonly upstream: Place;
  readonly #parts: PairParts;

  constructor(parts: PairParts) {
    this.upstream = parts.upstream;
    this.#parts = parts;
  }

  get ports(): PairParts["ports"] {
    return this.#parts.ports;
  }

  /** The sidecars as Posterns, where they are. */
  get posterns(): { readonly web: Postern; readonly db: Postern } {
    return { web: this.#parts.web as Postern, db: this.#parts.db as Postern };
  }

  /** Like {@link assertFlawless}, with what the sidecars complained about. */
  expectFlawless(result: LoadResult, options: { readonly atLeast: number }): void {
    try {
      assertFlawless(result, options);
    } catch (error) {
      const complaints = Object.entries(this.posterns).map(([name, { output }]) => {
        const lines = output.split("\n").filter((line) => /\[(WARN|ERROR)\]/.test(line));
        return `--- ${name} ---\n${lines.slice(-30).join("\n")}`;
      });
      throw new Error(complaints.join("\n"), { cause: error });
    }
  }

  /** Tells an agent that forgot them about both services again. */
  async registerAgain(): Promise<void> {
    await this.#parts.register();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { web, db, echo } = this.#parts;
    const ends = [web, db, echo].map((part) => part?.[Symbol.asyncDispose]());
    const failed = (await Promise.allSettled(ends)).find((end) => end.status === "rejected");
    if (failed?.status === "rejected") throw failed.reason;
  }
}

/** Registers both, allows web to call db, starts both sidecars and waits until they are ready. */
export async function startPair(agent: Consul, options: PairOptions = {}): Promise<Pair> {
  const { web = posternSidecar, db = posternSidecar, webAgent = agent } = options;
  const echo = options.app ? undefined : await startEcho({ host: agent.host });
  const app = options.app ?? (echo as EchoServer);
  const dbSidecar = await freePort(agent.host);
  const [webSidecar = 0, upstreamPort = 0, webPort = 0] = await freePorts(webAgent.host, 3);
  const defaultChecks = options.defaultChecks ?? false;
  const register = async () => {
    await registerService(agent, {
      ...{ name: "db", host: agent.host, port: app.port, sidecarPort: dbSidecar, defaultChecks },
    });
    await registerService(webAgent, {
      ...{
        name: "web",
        host: webAgent.host,
        port: webPort,
        sidecarPort: webSidecar,
        defaultChecks,
      },
      upstreams: [{ name: "db", port: upstreamPort, ...options.webUpstream }],
    });
  };
  await register();
  if (!options.noIntention) await agent.intention("web", "db", "allow");
  const tokenFor = async (name: string, user: Consul) =>
    options.tokens ? { token: await user.serviceToken(name) } : {};
  const [dbStart, webStart] = await Promise.allSettled([
    db(agent, { serviceId: "db-1", ...await tokenFor("db", agent), ...options.sidecar }),
    web(webAgent, { serviceId: "web-1", ...await tokenFor("web", webAgent), ...options.sidecar }),
  ]);
  if (dbStart.status === "fulfilled" && webStart.status === "fulfilled") {
    return new Pair({
      upstream: { host: webAgent.host, port: upstreamPort },
      ports: { webSidecar, dbSidecar },
      ...{ web: webStart.value, db: dbStart.value, echo, register },
    });
  }
  let reason: unknown;
  for (const start of [dbStart, webStart]) {
    if (start.status === "rejected") reason = start.reason;
    else await start.value[Symbol.asyncDispose]();
  }
  await echo?.close();
  throw reason;
}

/** Waits until one message comes back through `place`. */
export async function waitForEcho(
  place: Place,
  options: { readonly timeoutMs?: number; readonly greeting?: string } = {},
): Promise<void> {
  await eventually(`echo through ${place.host}:${place.port}`, async () => {
    const client = await EchoClient.open(place);
    try {
      if (options.greeting) {
        const line = await client.readLine({ timeoutMs: 3_000 });
        if (line !== options.greeting) throw new Error(`answered by ${line}`);
      }
      await client.exchange(new TextEncoder().encode("hello"), { timeoutMs: 3_000 });
      await client.finish({ timeoutMs: 3_000 });
      return true;
    } finally {
      client.destroy();
    }
  }, { timeoutMs: options.timeoutMs ?? 20_000, everyMs: 100 });
}

/** Fails unless a new connection to `place` is refused or ended without a byte. */
export async function expectRefused(place: Place): Promise<void> {
  let client: EchoClient;
  try {
    client = await EchoClient.open(place);
  } catch {
    return; // refused at once is refused, too
  }
  try {
    await client.exchange(new TextEncoder().encode("hello"), { timeoutMs: 5_000 });
  } catch (error) {
    // Held open without an answer is not refused.
    if (!client.isOver) throw error;
    return;
  } finally {
    client.destroy();
  }
  throw new Error(`Bytes came through ${place.host}:${place.port} that should not have`);
}
