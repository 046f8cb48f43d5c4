/**
 * `postern proxy`: source, data plane, admin server and signals put together, from start to the end of
 * the drain.
 *
 * @module
 */

import process from "node:process";
import { type AdminServer, type AdminView, readAdminToken, startAdmin } from "../admin/mod.ts";
import {
  formatAddress,
  type LevelHolder,
  type Log,
  messageOf,
  Stats,
  systemClock,
  systemRandom,
} from "../base/mod.ts";
import type { FetchCertificate, RemoteAuthorize } from "../proxy/mod.ts";
import { descriptorLimit, type Engine, runtimeEngine } from "../net/mod.ts";
import type { ProxyOptions } from "./args.ts";
import { fittingConnections, tooFewFiles } from "./descriptors.ts";
import { shownMode } from "./find_admin.ts";
import { Heartbeat } from "./heartbeat.ts";
import { BindRetry } from "./bind_retry.ts";
import { boundedAuthorize } from "./bounded_authorize.ts";
import { exitCodeOf, lastWords } from "./last_words.ts";
import { createLogOutput, createLogWriter } from "./log_output.ts";
import { Notifier } from "./notify.ts";
import { createLocalPlane, type DataPlane } from "./plane.ts";
import { giveWayToTraffic } from "./priority.ts";
import { Readiness } from "./readiness.ts";
import { onSignals } from "./signals.ts";
import { createSource, type ProxySource } from "./source.ts";
import { versionInfo, versionLine } from "./version.ts";
import { createWorkerPlane } from "./worker_plane.ts";

/** After becoming ready: what only the start needed can go. */
const TRIM_MS = 3_000;

/** Runs until a signal or the admin server ends it; the exit code. */
export async function runProxy(options: ProxyOptions): Promise<number> {
  const clock = systemClock;
  const holder: LevelHolder = { level: options.logLevel };
  if (options.adminTokenFile !== undefined) readAdminToken(options.adminTokenFile);
  const writer = createLogWriter({ clock, json: options.logJson, workers: options.workers });
  const { rings } = writer;
  const log = createLogOutput({
    ...{ clock, json: options.logJson, holder },
    ...{ ring: rings.own, wake: writer.drain },
  });
  const engine = runtimeEngine();
  const stats = new Stats();
  const linesLost = stats.counter("log_lines_dropped_total", "Log lines that were not written");
  const stopping = new AbortController();
  const startedMs = clock.monotonic();
  log.info("starting", { version: versionLine(engine.name) });
  for (const warning of options.warnings) log.warn(warning);
  const openFiles = descriptorLimit();
  const maxConnections = fittingConnections(options.maxConnections, openFiles);
  const tooFew = tooFewFiles(options.maxConnections, { maxConnections, openFiles });
  if (tooFew !== undefined) log.warn(tooFew);

  let finish = () => {};
  const finished = new Promise<undefined>((resolve) => finish = () => resolve(undefined));
  let reload = () => {};
  // From here on: a supervisor may stop us while we still wait for the agent.
  const signals = onSignals({
    stop: () => finish(),
    reload: () => {
      log.info("reloading files");
      reload();
    },
  });

  const state = {
    draining: false,
    exitCode: 0,
    waitingFor: "the first answer of the agent",
  };
  let parts: (ProxySource & { readonly plane: DataPlane }) | undefined;
  const drain = () =>
    parts?.plane.drain(options.drainTimeoutMs).catch((error) =>
      log.error("drain failed", { error: messageOf(error) })
    );
  /** In force. */
  const snapshot = () => parts?.plane.rollout.published;
  const refused = () => parts?.plane.rollout.refused ?? [];
  const view: AdminView = {
    clock,
    get info() {
      return {
        ...versionInfo(engine.name),
        pid: process.pid,
        workers: options.workers,
        startedMs,
        limits: { openFiles: descriptorLimit(), maxConnections },
        options: shownOptions(options, parts?.proxyId ?? ""),
      };
    },
    data: () => parts?.plane.views({ connections: true }) ?? Promise.resolve([]),
    samples() {
      linesLost.add(rings.lost - linesLost.value);
      return stats.samples();
    },
    snapshot,
    source: () => parts?.source.status(),
    refused: () => [...parts?.source.refused ?? [], ...refused()],
    secretsReport: () => parts?.source.secrets() ?? { statuses: [], events: [] },
    health: () => readiness.look(),
    stuck: () => parts?.plane.stuck() ?? Promise.resolve([]),
    draining: () => state.draining,
    secrets: () => parts?.secrets ?? [],
    logLevel: () => holder.level,
    setLogLevel: (level) => {
      holder.level = level;
      parts?.plane.setLogLevel(level);
    },
    drainListeners: () => {
      state.draining = true;
      drain();
    },
    quit: () => finish(),
  };
  let onReadiness = (_reasons: readonly string[]) => {};
  const readiness = new Readiness({
    clock,
    log,
    wanted: options.ready,
    facts: () => {
      const status = parts?.source.status();
      const [refusal] = refused();
      return {
        draining: state.draining,
        snapshot: snapshot(),
        waitingFor: (status ? status.waitingFor.join(", ") : state.waitingFor) ||
          (refusal ? `a snapshot that can be used: ${refusal.reason}` : "the first snapshot"),
        warming: status?.warming ?? [],
      };
    },
    plane: () => parts?.plane,
    onChange: (reasons) => onReadiness(reasons),
    signal: stopping.signal,
  });
  let applying = Promise.resolve();
  let admin: AdminServer | undefined;
  let opening: Promise<AdminServer> | undefined;
  const openAdmin = async () => {
    if (options.adminBind.kind === "off") return;
    const { adminBind: bind, adminTokenFile: tokenFile } = options;
    opening ??= startAdmin(view, { bind, ...(tokenFile !== undefined && { tokenFile }) }, log);
    admin = await opening;
  };

  try {
    const starting = createSource(options, {
      clock,
      random: systemRandom,
      log,
      stats,
      env: process.env,
      signal: stopping.signal,
      tlsFault: (material) => engine.tlsFault(material),
      // Whoever asks whether we live gets an answer meanwhile.
      async onWaiting(reason) {
        state.waitingFor = `the agent: ${reason}`;
        await openAdmin();
      },
    });
    const started = await Promise.race([starting, finished]);
    if (!started) {
      stopping.abort();
      await admin?.close();
      log.info("stopped before the agent was reached");
      return 0;
    }
    const { source, agent, proxyId } = started;
    const plane = createPlane(engine, options, {
      holder,
      log,
      stats,
      logMemory: rings.memory,
      onLines: writer.drain,
      maxConnections,
      remoteAuthorize: boundedAuthorize(agent),
      async fetchCertificate(request) {
        const available = await source.fetchCertificate(request);
        // The workers must have been told of it before they are told that it is there.
        await applying;
        return available;
      },
    });
    parts = { ...started, plane };
    if (state.draining) drain();
    await openAdmin();
    const notifier = new Notifier({ env: process.env, pid: process.pid, clock, log });
    const heartbeat = new Heartbeat({
      clock,
      plane,
      paths: Math.max(options.workers, 1),
      onUsed: (upstreams) => source.used(upstreams),
      signal: stopping.signal,
    });
    notifier.startWatchdog(() => heartbeat.healthy);

    let told = false;
    const serving = () => `serving ${snapshot()?.service ?? ""}`;
    onReadiness = (reasons) => {
      if (reasons.length > 0) {
        log.error("not ready any more", { reasons: reasons.join("; ") });
        return notifier.status(`not ready: ${reasons.join("; ")}`);
      }
      if (told) {
        log.info("ready again");
        return notifier.status(serving());
      }
      told = true;
      clock.after(TRIM_MS, () => engine.trim({ shared: true }));
      if (options.workers > 0) giveWayToTraffic();
      log.info("ready", { proxy: proxyId, service: snapshot()?.service });
      notifier.ready(serving());
    };
    const binding = new BindRetry({
      ...{ clock, log, plane, signal: stopping.signal },
      onTried: () => readiness.watch(),
    });
    source.start((snapshot) => {
      const applied = applying = plane.rollout.apply(snapshot).then(async () => {
        // One that comes meanwhile looks itself.
        if (applied === applying) await binding.look();
      });
    }, (error) => {
      log.error("cannot serve", { error: error.message });
      state.exitCode = 1;
      finish();
    });
    let registered = Promise.resolve();
    if (agent && options.mode.kind === "flags" && options.mode.register && options.mode.listen) {
      const { service, listen } = options.mode;
      registered = agent.keepRegistered({
        id: proxyId,
        name: `${service}-proxy`,
        destination: service,
        host: listen.host,
        port: listen.port,
      }, stopping.signal).catch((error) =>
        log.error("not registered", { error: messageOf(error) })
      );
    }

    reload = () => {
      notifier.reloading("reading files again");
      let isGood = true;
      try {
        agent?.reloadFiles?.();
      } catch (error) {
        isGood = false;
        log.error("agent files not reloaded; the old ones stay", { error: messageOf(error) });
      }
      source.reload().then(async (isRead) => {
        await applying;
        if (isRead && isGood) log.info("files reloaded");
      }).finally(() => notifier.ready("files read again"));
    };
    await finished;

    // A second signal ends at once.
    const impatient = new Promise<void>((resolve) => signals.onSecondStop(resolve));
    notifier.stopping("draining");
    state.draining = true;
    const connections = (await plane.listeners()).flat()
      .reduce((sum, listener) => sum + listener.connections, 0);
    log.info("stopping", { connections, drain_timeout_ms: options.drainTimeoutMs });
    await Promise.race([plane.drain(options.drainTimeoutMs), impatient]);
    stopping.abort();
    plane.close();
    // Registered by ourselves, it is taken back before the agent's connections are closed.
    await Promise.race([Promise.all([source.close(), registered]), impatient]);
    agent?.close();
    await admin?.close();
    log.info("stopped");
    return state.exitCode;
  } catch (error) {
    // Whoever should read it may have stopped reading: not written here.
    writer.say(lastWords(error, { json: options.logJson, nowMs: clock.now() }));
    return exitCodeOf(error);
  } finally {
    signals.off();
  }
}

function createPlane(
  engine: Engine,
  options: ProxyOptions,
  deps: {
    readonly holder: LevelHolder;
    readonly log: Log;
    readonly stats: Stats;
    readonly logMemory: SharedArrayBuffer;
    readonly onLines: () => void;
    readonly maxConnections: number;
    readonly remoteAuthorize: RemoteAuthorize;
    readonly fetchCertificate: FetchCertificate;
  },
): DataPlane {
  const common = {
    clock: systemClock,
    log: deps.log,
    stats: deps.stats,
    maxConnections: deps.maxConnections,
    idleTimeoutMs: options.idleTimeoutMs,
    lifetimeMs: options.lifetimeMs,
    remoteAuthorize: deps.remoteAuthorize,
    fetchCertificate: deps.fetchCertificate,
  };
  if (options.workers === 0) return createLocalPlane(engine, common);
  return createWorkerPlane({
    ...common,
    workers: options.workers,
    logJson: options.logJson,
    logLevel: deps.holder.level,
    logMemory: deps.logMemory,
    onLines: deps.onLines,
  });
}

/** The flags as the admin server may show them: no token, no key. */
function shownOptions(options: ProxyOptions, proxyId: string): Readonly<Record<string, unknown>> {
  const { agentFlags, mode, adminBind, warnings: _warnings, ...rest } = options;
  return {
    ...rest,
    mode: mode.kind,
    ...shownMode(mode, proxyId),
    adminBind: adminBind.kind === "address"
      ? formatAddress({ ...adminBind, kind: "tcp" })
      : adminBind.kind,
    agent: agentFlags.httpAddr ?? "from the environment",
  };
}
