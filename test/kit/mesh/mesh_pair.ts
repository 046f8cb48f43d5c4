/**
 * The pair "web calls db" that most stories of processes start from: two services, two sidecars, one
 * intention, on any agent.
 *
 * @module
 */

import { EchoClient, type Place, waitForEcho, waitForRefusal } from "../wire/echo.ts";
import { assertFlawless, type LoadResult } from "../wire/load.ts";
import type { Mesh, MeshService, MeshUpstream, RunOptions } from "./mesh.ts";
import type { Postern } from "../process/postern.ts";
import { deadline, eventually } from "../process/process.ts";

/** How a story starts a sidecar that is no Postern. */
type StartSidecar<M extends Mesh = Mesh> = (
  agent: M,
  serviceId: string,
  options: RunOptions,
) => Promise<AsyncDisposable>;

export interface MeshPairOptions<M extends Mesh> {
  /** Options of web's sidecar, or the function that starts it. */
  readonly web?: RunOptions | StartSidecar<M>;
  readonly db?: RunOptions | StartSidecar<M>;
  /** How both are. */
  readonly both?: RunOptions;
  /** Where web is registered, if not where db is. */
  readonly webAgent?: M;
  /** Where db listens, instead of an echo server. */
  readonly app?: Place;
  readonly defaultChecks?: boolean;
  /** Registered but no intention written. */
  readonly noIntention?: boolean;
  readonly webUpstream?: Partial<MeshUpstream>;
  /** `Proxy.Config` of web's sidecar. */
  readonly webConfig?: MeshService["config"];
}

interface PairParts {
  /** The sidecars; one that is no Postern has only its end. */
  readonly web: Postern;
  readonly db: Postern;
  /** Where web's application connects to reach db. */
  readonly upstream: Place;
  /** db's public listener. */
  readonly public: Place;
  /** web's. */
  readonly webPublic: Place;
  /** db's application. */
  readonly app: Place;
  /** Registers both services and the intentions again at an agent that forgot them. */
  readonly registerAgain: (changed?: Pick<MeshService, "meta">) => Promise<void>;
}

/** `web` calls `db` through two sidecars. */
export interface MeshPair extends PairParts, AsyncDisposable {
  /** Like {@link assertFlawless}, with the warnings of the sidecars. */
  expectFlawless(result: LoadResult, options: { readonly atLeast: number }): void;
}

/** Registers both, allows web to call db, starts both sidecars and waits until they are ready. */
export async function startMeshPair<M extends Mesh>(
  agent: M,
  options: MeshPairOptions<M> = {},
): Promise<MeshPair> {
  const { webAgent = agent, defaultChecks = false } = options;
  await using own = new AsyncDisposableStack();
  const app = options.app ?? own.use(await agent.echo());
  const inbound = await agent.place();
  const [upstream, webPublic] = [await webAgent.place(), await webAgent.place()];
  const registerAgain = async (changed: Pick<MeshService, "meta"> = {}) => {
    const both = { ...changed, defaultChecks };
    await agent.register({ name: "db", port: app.port, sidecarPort: inbound.port, ...both });
    await webAgent.register({
      name: "web",
      sidecarPort: webPublic.port,
      ...both,
      ...options.webConfig && { config: options.webConfig },
      upstreams: [{ name: "db", port: upstream.port, ...options.webUpstream }],
    });
    if (!options.noIntention) await agent.intention("web", "db", "allow");
  };
  await registerAgain();
  const start = async (on: M, name: "web" | "db") => {
    const { [name]: how = {}, both } = options;
    const run = { ...await on.ownToken(name), ...both, ...(typeof how === "object" ? how : {}) };
    const sidecar = typeof how === "function"
      ? await how(on, `${name}-1`, run)
      : await on.sidecar(`${name}-1`, run);
    return own.use(sidecar) as Postern;
  };
  const [db, web] = await bothOf([start(agent, "db"), start(webAgent, "web")]);
  const stack = own.move();
  return {
    web,
    db,
    upstream,
    public: inbound,
    webPublic,
    app,
    registerAgain,
    expectFlawless(result, wanted) {
      try {
        assertFlawless(result, wanted);
      } catch (error) {
        const complaints = Object.entries({ web, db }).map(([name, { output }]) => {
          const lines = output.split("\n").filter((line) => /\[(WARN|ERROR)\]/.test(line));
          return `--- ${name} ---\n${lines.slice(-30).join("\n")}`;
        });
        throw new Error(`${error}\n${complaints.join("\n")}`, { cause: error });
      }
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** Resolves to both, or rejects with the first failure once both have settled. */
async function bothOf<T>(starts: readonly [Promise<T>, Promise<T>]): Promise<[T, T]> {
  await Promise.allSettled(starts);
  return await Promise.all(starts);
}

/** The watches are alive again: a deny ends an open connection, an allow lets new ones in. */
export async function expectFollowed(agent: Mesh, { upstream }: MeshPair): Promise<void> {
  await waitForEcho(upstream);
  const open = await EchoClient.open(upstream);
  await open.exchange(new TextEncoder().encode("hello"));
  await agent.intention("web", "db", "deny");
  // Longer than the second of a healthy day: a watch may still be in its back-off, and the first
  // answer of a real server that came back takes seconds.
  if (!await deadline(open.over, 60_000)) throw new Error("A deny after the trouble is ignored");
  open.destroy();
  await waitForRefusal(upstream);
  await agent.intention("web", "db", "allow");
  await waitForEcho(upstream);
}

/** Waits until the calling Postern's log reports that the other sidecar refused it. */
export async function saysRefused({ web }: MeshPair): Promise<void> {
  await eventually("web says that it was refused", () => {
    return /\[WARN\].*connection failed.*ended_by=upstream.*code=refused_by_peer/.test(web.output);
  });
}

/**
 * Waits until Consul's own checks have seen the sidecar of `service`. A first check that came before it
 * listened is in the catalog until the next one, ten seconds later.
 */
export async function waitForPassing(agent: Mesh, service: string): Promise<void> {
  await eventually(`${service} passes its checks`, async () => {
    const passing = await agent.get<readonly unknown[]>(`/v1/health/connect/${service}?passing`);
    return passing.length > 0;
  });
}
