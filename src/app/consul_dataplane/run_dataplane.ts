/**
 * `postern dataplane`: a sidecar beside Consul's servers, in place of consul-dataplane.
 *
 * @module
 */

import process from "node:process";
import { type AdminView, askAdmin, type Listening } from "../../admin/mod.ts";
import { messageOf, printable } from "../../base/mod.ts";
import { runProxy } from "../process/run_proxy.ts";
import { startLifecycle, startReady } from "./lifecycle.ts";
import { adminPort, type DataplaneOptions, dataplaneOptions } from "./options.ts";
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
