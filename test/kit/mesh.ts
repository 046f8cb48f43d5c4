/**
 * Services with sidecars on a real Consul: registration as an operator writes it, and the pair "web
 * calls db" that most stories start from.
 *
 * @module
 */

import type { Consul } from "./consul.ts";
import { type EchoServer, type Place, startEcho } from "./echo.ts";
import { assertFlawless, type LoadResult } from "./load.ts";
import type { Postern } from "./postern.ts";
import { freePort, freePorts } from "./ports.ts";
import { eventually } from "./process.ts";
import { posternSidecar, type SidecarOptions, type StartSidecar } from "./sidecars.ts";

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
export async function registerService(
  agent: Pick<Consul, "put">,
  options: ServiceOptions,
): Promise<string> {
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

/**
 * Waits until Consul's own checks have seen the sidecar of `service`. A first look that came before it
 * listened is what the catalog says until the next one, ten seconds later.
 */
export async function waitForPassing(agent: Pick<Consul, "get">, service: string): Promise<void> {
  await eventually(`${service} passes its checks`, async () => {
    const passing = await agent.get<readonly unknown[]>(`/v1/health/connect/${service}?passing`);
    return passing.length > 0;
  });
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

/** Waits until the calling Postern's log says that the other sidecar did not want it. */
export async function saysRefused({ posterns: { web } }: Pair): Promise<void> {
  await eventually("web says that it was refused", () => {
    return /\[WARN\].*connection failed.*ended_by=upstream.*code=refused_by_peer/.test(web.output);
  });
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
