/** Makes the source of snapshots: an agent's registration, flags, or a file. @module */

import {
  type Clock,
  type Log,
  messageOf,
  ProxyError,
  type Random,
  type ReportEvent,
  type Stats,
} from "../../base/mod.ts";
import {
  type Consul,
  createAgent,
  openServers,
  type RegisterSignals,
  type Registration,
  resolveAgentOptions,
  resolveServersOptions,
} from "../../consul/mod.ts";
import {
  ConsulSource,
  FileSource,
  FileStore,
  pinStoredCluster,
  PluginWatch,
  readFileConfig,
  registrationOfFlags,
  type RegistrationSource,
  type SnapshotSource,
  type SnapshotStore,
} from "../../source/mod.ts";
import { createProviders, type SecretsEngine, SecretStore } from "../../secrets/mod.ts";
import type { ProxyOptions } from "../flags/proxy_options.ts";
import { findProxy, usualIdOf } from "./find_proxy.ts";
import type { Engine } from "../../net/mod.ts";
import { VERSION } from "./version.ts";

export interface ControlDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly stats: Stats;
  readonly report?: ReportEvent;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  readonly engine: Engine;
  /** Called for each failure while Consul does not answer and nothing can start; `reason` names both. */
  onWaiting(reason: () => string): Promise<void>;
}

/** The source of a proxy's state, with its registration and secrets. */
export interface ProxyControl {
  readonly source: SnapshotSource;
  /** Absent with `-config`. */
  readonly agent: Consul | undefined;
  readonly proxyId: string;
  /** Texts that must never be shown. */
  readonly secrets: readonly string[];
  /**
   * With `-register`, keeps the proxy registered until `signals` end it; resolves when the registration is
   * removed. Beside servers nothing can be served without it: a rejection ends the process.
   */
  keepRegistered(signals: RegisterSignals): Promise<void>;
  readonly needsRegistering: boolean;
}

/** Throws `config_invalid` and `agent_not_found` before anything was started. */
export async function createControl(
  options: ProxyOptions,
  deps: ControlDeps,
): Promise<ProxyControl> {
  const { mode } = options;
  const { clock, log, stats, report } = deps;
  const reporting = report && { report };
  const pluginWatch = options.watchPlugins ? new PluginWatch(clock) : undefined;
  if (mode.kind === "config") {
    const { strictSpiffeChain, idleTimeoutMs, lifetimeMs, tracing, telemetry } = options;
    const { env } = deps;
    const settings = { strictSpiffeChain, idleTimeoutMs, lifetimeMs, tracing, telemetry, env };
    // Read once now, so that a bad file fails before anything is started.
    await readFileConfig(mode.file, settings);
    const source = new FileSource({
      ...settings,
      file: mode.file,
      clock,
      log,
      stats,
      ...reporting,
      pluginWatch,
      createSecretStore: () => createSecretStore(deps),
      ...storeOf(options, deps, { holdsMesh: false }),
    });
    return {
      source,
      agent: undefined,
      proxyId: mode.file,
      secrets: [],
      keepRegistered: () => Promise.resolve(),
      needsRegistering: false,
    };
  }
  const { agent, secrets } = await openConsul(options, deps);
  const { store } = storeOf(options, deps, { holdsMesh: true });
  if (store && mode.kind === "agent") {
    await pinStoredCluster(usualIdOf(mode), { agent, store });
  }
  const registration = await unlessStopped(registrationOf(options, agent, deps), deps.signal)
    .catch(async (error) => {
      await agent.leave?.();
      agent.close();
      throw error;
    });
  // Not awaited: an agent that does not answer must not delay a proxy with a stored state.
  reportMissingRights(agent, registration, log);
  const proxyId = registration.kind === "agent"
    ? registration.proxyId
    : registration.registration.id;
  if (store) await pinStoredCluster(proxyId, { agent, store });
  const source = new ConsulSource({
    agent,
    registration,
    clock,
    log,
    stats,
    ...reporting,
    authorize: options.authorize,
    strictSpiffeChain: options.strictSpiffeChain,
    defaultQueryIntervalMs: options.preparedQueryIntervalMs,
    idleTimeoutMs: options.idleTimeoutMs,
    lifetimeMs: options.lifetimeMs,
    tracing: options.tracing,
    telemetry: options.telemetry,
    env: deps.env,
    pluginWatch,
    createSecretStore: () => createSecretStore(deps),
    ...(store && { store }),
  });
  return {
    source,
    agent,
    proxyId,
    secrets,
    needsRegistering: isOwn(options),
    async keepRegistered(signals) {
      if (mode.kind !== "flags" || !mode.register) return;
      const { applicationId, nodeAddress, httpCheckPath } = mode;
      const request = { applicationId, nodeAddress, httpCheckPath };
      await agent.keepRegistered({ ...request, registration: registrationOfFlags(mode) }, signals);
    },
  };
}

/** The proxy writes its own entry of the catalog. */
function isOwn({ mode, serversFlags }: ProxyOptions): boolean {
  return mode.kind === "flags" && mode.register && serversFlags !== undefined;
}

/** Sends no request yet. */
async function openConsul(
  { agentFlags, agentConnections, serversFlags }: ProxyOptions,
  deps: ControlDeps,
): Promise<{ readonly agent: Consul; readonly secrets: readonly string[] }> {
  const { log, env } = deps;
  const agentDeps = { ...deps, connections: agentConnections };
  if (serversFlags) {
    const options = resolveServersOptions(serversFlags, env);
    if (options.tls?.verify === false) {
      log.warn("the servers' certificates are not checked: whoever answers gets the token");
    }
    const { token, login } = options;
    return {
      agent: await openServers(options, agentDeps),
      secrets: [token, login?.bearerToken ?? ""].filter(Boolean),
    };
  }
  const options = resolveAgentOptions(agentFlags, env);
  if (options.tls?.verify === false) {
    log.warn("the agent's certificate is not checked: whoever answers gets the token", {
      variable: "CONSUL_HTTP_SSL_VERIFY",
    });
  }
  const { token, basicAuth } = options;
  return { agent: createAgent(options, agentDeps), secrets: [token, basicAuth].filter(Boolean) };
}

/** Resolves with `found`; rejects when `signal` aborts, so that an agent that hangs is not waited for. */
function unlessStopped<T>(found: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(new ProxyError("closed", "Stopped while looking for the proxy"));
    signal.addEventListener("abort", stop);
    if (signal.aborted) stop();
    found.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}

async function registrationOf(
  options: ProxyOptions,
  agent: Consul,
  deps: ControlDeps,
): Promise<RegistrationSource> {
  const { mode } = options;
  switch (mode.kind) {
    case "flags":
      // Central configuration adds to the registration; it is read back.
      if (isOwn(options)) return { kind: "agent", proxyId: mode.proxyId };
      return { kind: "static", registration: registrationOfFlags(mode) };
    case "agent":
      return {
        kind: "agent",
        proxyId: await findProxy(mode, {
          ...deps,
          agent,
          onWaiting: (reason) => deps.onWaiting(reason),
          hasState: options.stateDir !== undefined,
        }),
      };
    case "config":
      throw new ProxyError("internal", "a configuration file has no registration");
  }
}

function storeOf(
  { stateDir, strictSpiffeChain }: ProxyOptions,
  { clock, log, stats }: ControlDeps,
  { holdsMesh }: { readonly holdsMesh: boolean },
): { readonly store?: SnapshotStore } {
  if (stateDir === undefined) return {};
  const options = { directory: stateDir, clock, log, stats, strictSpiffeChain, holdsMesh };
  return { store: new FileStore(options) };
}

type SecretStoreDeps = Omit<ControlDeps, "signal" | "engine" | "onWaiting"> & {
  readonly engine: SecretsEngine;
};

/** The store of secrets with every kind of source. */
export function createSecretStore(deps: SecretStoreDeps): SecretStore {
  const { clock, random, log, stats, report } = deps;
  const providers = createProviders({ ...deps, version: VERSION });
  return new SecretStore({ clock, random, log, stats, ...report && { report }, providers });
}

/** Logs rights that the token lacks; they may be granted at any moment. Never rejects. */
async function reportMissingRights(
  agent: Consul,
  source: RegistrationSource,
  log: Log,
): Promise<void> {
  try {
    const registration = source.kind === "static"
      ? source.registration
      : await firstRegistration(agent, source.proxyId);
    const check = await agent.checkRights(registration);
    for (const { right, on, neededFor } of check.kind === "checked" ? check.missing : []) {
      log.error("the token lacks a right", { right, on, needed_for: neededFor });
    }
  } catch (error) {
    log.warn("rights of the token not checked", { error: messageOf(error) });
  }
}

export function firstRegistration(agent: Consul, proxyId: string): Promise<Registration> {
  return new Promise((resolve) => {
    const watch = agent.watchRegistration(proxyId, {
      onValue(registration) {
        watch.stop();
        resolve(registration);
      },
      // The source's own watch reports failures; this one waits for the first answer.
      onError() {},
    });
  });
}
