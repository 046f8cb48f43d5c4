/**
 * The same mesh read by both interfaces, within the test's own process: through a server's agent
 * interface, and as proxies do that have no agent.
 *
 * @module
 */

import assert from "node:assert/strict";
import { silentLog, Stats, systemClock, systemRandom } from "../../../src/base/mod.ts";
import {
  type Consul,
  createAgent,
  type Registration,
  resolveAgentOptions,
  resolveServersOptions,
} from "../../../src/consul/mod.ts";
import { createServers } from "../../../src/consul/create_servers.ts";
import { runtimeEngine } from "../../../src/net/mod.ts";
import type { Snapshot } from "../../../src/snapshot/mod.ts";
import { ConsulSource } from "../../../src/source/mod.ts";
import type { Cluster } from "./cluster.ts";
import { deadline } from "../process/process.ts";

const TIMEOUT_MS = 30_000;
const deps = () => ({
  engine: runtimeEngine(),
  clock: systemClock,
  random: systemRandom,
  log: silentLog,
  stats: new Stats(),
  connections: 12,
});

/** Through the agent that every server is, too. */
export function agentOf(cluster: Cluster, token: string): Required<Consul> {
  return createAgent(resolveAgentOptions({ httpAddr: cluster.address, token }, {}), deps());
}

/** Beside servers; `server`: that one alone. */
export function serversOf(
  cluster: Cluster,
  options: { readonly node: string; readonly token?: string; readonly server?: number },
): Required<Consul> {
  const { node, token = "", server } = options;
  const hosts = cluster.members.map(({ host }) => host);
  const resolved = resolveServersOptions({
    servers: server === undefined ? hosts.join(",") : hosts[server] ?? "",
    serverWatchDisabled: server !== undefined,
    grpcPort: cluster.grpcPort,
    httpPort: cluster.httpPort,
    tlsDisabled: true,
    node,
    token,
  }, {});
  return createServers(resolved, deps());
}

/** The first value that a watch gives. */
export async function firstOf<T>(
  watch: (sink: { onValue(value: T): void; onError(error: Error): void }) => { stop(): void },
): Promise<T> {
  let failure: Error | undefined;
  let running: { stop(): void } | undefined;
  const first = new Promise<T>((resolve) => {
    running = watch({ onValue: resolve, onError: (error) => failure = error });
  });
  const value = await deadline(first, TIMEOUT_MS);
  running?.stop();
  if (value === undefined) throw new Error("a watch said nothing", { cause: failure });
  return value;
}

export function registrationOf(agent: Consul, proxyId: string): Promise<Registration> {
  return firstOf((sink) => agent.watchRegistration(proxyId, sink));
}

/** The complete snapshot of the proxy, without a listener being opened. */
export async function snapshotOf(agent: Consul, proxyId: string): Promise<Snapshot> {
  const stats = new Stats();
  const source = new ConsulSource({
    agent,
    clock: systemClock,
    log: silentLog,
    stats,
    createSecretStore: () => assert.fail("no secrets are configured"),
    registration: { kind: "agent", proxyId },
  });
  try {
    const first = new Promise<Snapshot>((resolve, reject) =>
      source.start((snapshot) => {
        resolve(snapshot);
        return Promise.resolve(snapshot);
      }, reject)
    );
    const snapshot = await deadline(first, TIMEOUT_MS);
    if (!snapshot) throw new Error("no snapshot came");
    return snapshot;
  } finally {
    await source.close();
  }
}
