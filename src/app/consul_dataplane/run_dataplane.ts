/** `postern dataplane`: a sidecar in place of consul-dataplane, with its servers. @module */

import process from "node:process";
import {
  type AdminView,
  askAdmin,
  type Listening,
  type SmallAnswer,
  startSmallServer,
} from "../../admin/mod.ts";
import { type Log, messageOf, printable, sleep } from "../../base/mod.ts";
import { runProxy } from "../process/run_proxy.ts";
import {
  adminPort,
  type DataplaneOptions,
  dataplaneOptions,
  type LifecycleOptions,
  type TcpBind,
} from "./options.ts";
import { DataplaneMetrics } from "./metrics.ts";
import { dataplaneValues, type DataplaneWords, readText } from "./values.ts";

const PROBE_TIMEOUT_MS = 3_000;

/** Runs until a signal or the admin server ends it; returns the exit code, 0 or 1. */
export async function runDataplane({ flags, forEnvoy }: DataplaneWords): Promise<number> {
  const values = dataplaneValues(flags, process.env, readText);
  if (flags.on("check-proxy-health")) return await checkHealth(adminPort(values));
  const options = dataplaneOptions(values, { forEnvoy, readText });
  const { shutdownGraceMs: ms, drainListeners: drainInbound } = options.lifecycle;
  const code = await runProxy(options.proxy, {
    env: withoutConsuls(process.env),
    metrics: options.metrics.useCentralConfig ? "sinks" : "none",
    ...(ms > 0 && { grace: { ms, drainInbound } }),
    open: (view, { log, stop }) => openServers(options, { view, log, stop }),
  });
  return code === 0 ? 0 : 1;
}

type OpenDeps = Parameters<typeof startLifecycle>[1] & { readonly view: AdminView };

async function openServers({ ready, lifecycle, metrics }: DataplaneOptions, deps: OpenDeps) {
  const served = new DataplaneMetrics(metrics, { ...deps, ask: askAdmin });
  const servers: Pick<Listening, "close">[] = [served];
  const close = async () => {
    await Promise.all(servers.map((server) => server.close()));
  };
  try {
    servers.push(await startLifecycle(lifecycle, deps));
    if (ready) servers.push(await startReady(ready, deps));
  } catch (error) {
    await close();
    throw error;
  }
  return { close };
}

/** consul-dataplane ignores the variables of other Consul tools. */
function withoutConsuls(env: NodeJS.ProcessEnv): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith("CONSUL_")));
}

/** `-check-proxy-health`, the command of a container's probe. */
async function checkHealth(port: number): Promise<number> {
  try {
    const admin = { host: "127.0.0.1", port };
    const { status } = await askAdmin(admin, { path: "/ready", timeoutMs: PROBE_TIMEOUT_MS });
    if (status === 200) return 0;
    process.stderr.write(`postern: the proxy is not ready: status ${status}\n`);
  } catch (error) {
    const fact = printable(messageOf(error));
    process.stderr.write(`postern: Cannot ask the proxy whether it is ready: ${fact}\n`);
  }
  return 1;
}

type ReadinessView = Pick<AdminView, "clock" | "health">;

const LOOK_MS = 250;

/** `stop` does the same as SIGTERM. Throws `listen_failed`. */
export function startLifecycle(
  options: LifecycleOptions,
  { view, log, stop }: { readonly view: ReadinessView; readonly log: Log; stop(): void },
): Promise<Listening> {
  const { host, port } = options;
  return startSmallServer({
    host,
    port,
    name: "lifecycle server",
    clock: view.clock,
    flag: "-graceful-port",
    answer: (_method, target) => lifecycleAnswer(target, options, { view, stop }),
  }, log);
}

export async function lifecycleAnswer(
  target: string,
  { startupPath, startupGraceMs, shutdownPath }: LifecycleOptions,
  { view, stop }: { readonly view: ReadinessView; stop(): void },
): Promise<SmallAnswer | undefined> {
  switch (target.replace(/\?.*/, "")) {
    case startupPath:
      // Answered in any case: without an answer the application would never start.
      await readyWithin(view, startupGraceMs);
      return { status: 200, body: "" };
    case shutdownPath:
      stop();
      return { status: 200, body: "" };
    default:
      return undefined;
  }
}

async function readyWithin({ clock, health }: ReadinessView, ms: number): Promise<void> {
  const untilMs = clock.monotonic() + ms;
  while (clock.monotonic() < untilMs && (await health()).notReady.length > 0) {
    await sleep(clock, Math.min(LOOK_MS, untilMs - clock.monotonic()));
  }
}

/** Serves `/ready` for probes from other machines. Throws `listen_failed`. */
export function startReady(
  bind: TcpBind,
  { view, log }: { readonly view: ReadinessView; readonly log: Log },
): Promise<Listening> {
  return startSmallServer({
    ...bind,
    name: "readiness server",
    clock: view.clock,
    flag: "-envoy-ready-bind-port",
    isPublic: true,
    async answer(_method, target) {
      if (target.replace(/\?.*/, "") !== "/ready") return undefined;
      const { notReady } = await view.health();
      // Only the admin server gives the reasons.
      return notReady.length === 0
        ? { status: 200, body: "LIVE\n" }
        : { status: 503, body: "NOT READY\n" };
    },
  }, log);
}
