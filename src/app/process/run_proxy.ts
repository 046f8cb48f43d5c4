/**
 * `postern proxy`: the process with its log, its data plane, its admin server and its signals.
 *
 * @module
 */

import process from "node:process";
import {
  type AdminAddress,
  type AdminView,
  askAdmin,
  readAdminToken,
  startAdmin,
} from "../../admin/mod.ts";
import {
  formatAddress,
  type LevelHolder,
  type Log,
  Stats,
  systemClock,
  systemRandom,
} from "../../base/mod.ts";
import { descriptorLimit, type Engine, runtimeEngine } from "../../net/mod.ts";
import type { FetchCertificate, RemoteAuthorize } from "../../proxy/mod.ts";
import { agentAddressText } from "../../consul/mod.ts";
import type { ProxyOptions } from "../command_line/args.ts";
import { boundedAuthorize } from "./bounded_authorize.ts";
import { createCatalogLook } from "./catalog_look.ts";
import { fittingConnections, tooFewFiles } from "./descriptors.ts";
import { findRival, shownMode, whoseAdmin } from "../commands/find_admin.ts";
import { exitCodeOf, lastWords } from "../log/last_words.ts";
import { ACCESS_RING_BYTES, createAccessLines } from "../log/access_lines.ts";
import { accessTargetOf } from "../log/access_target.ts";
import { AccessWriter } from "../log/access_writer.ts";
import { createLogOutput, createLogWriter } from "../log/log_output.ts";
import { LogRings } from "../log/log_rings.ts";
import { Notifier } from "./notify.ts";
import { createLocalPlane, type DataPlane } from "../workers/plane.ts";
import { trimWhenQuiet } from "../workers/quiet_trim.ts";
import { giveWayToTraffic } from "./priority.ts";
import { ProxyProcess, type ShutdownGrace } from "./proxy_process.ts";
import { MetricSinks } from "./metric_sinks.ts";
import { onSignals } from "./signals.ts";
import { createControl } from "./control.ts";
import { versionInfo, versionLine } from "../command_line/version.ts";
import { createWorkerPlane } from "../workers/worker_plane.ts";

/** What is different where a proxy stands in for another program. */
export interface StandInOptions {
  /** In place of this process's. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly grace?: ShutdownGrace;
  /** Of the proxy's configuration: all but Prometheus, which it serves itself, or nothing. */
  readonly metrics: "sinks" | "none";
  /** Opens what that program has besides, before anything is asked of Consul. */
  open(
    view: AdminView,
    deps: { readonly log: Log; stop(): void },
  ): Promise<{ close(): Promise<void> }>;
}

/** Runs until a signal or the admin server ends it; the exit code. */
export async function runProxy(options: ProxyOptions, standIn?: StandInOptions): Promise<number> {
  const clock = systemClock;
  const holder: LevelHolder = { level: options.logLevel };
  const { adminBind: bind, adminTokenFile: tokenFile } = options;
  if (tokenFile !== undefined) readAdminToken(tokenFile);
  const writer = createLogWriter({ clock, json: options.logJson, workers: options.workers });
  const { rings } = writer;
  const accessRings = LogRings.create(Math.max(options.workers, 1), ACCESS_RING_BYTES);
  const log = createLogOutput({
    ...{ clock, json: options.logJson, holder },
    ...{ ring: rings.own, wake: writer.drain },
  });
  const engine = runtimeEngine();
  const stats = new Stats();
  const access = new AccessWriter({ rings: accessRings, clock, log, stats });
  const linesLost = stats.counter(
    "log_lines_dropped_total",
    "Log lines that were lost because nobody read standard error in time",
  );
  const startedMs = clock.monotonic();
  log.info("starting", { version: versionLine(engine.name) });
  for (const warning of options.warnings) log.warn(warning);
  const openFiles = descriptorLimit();
  const maxConnections = fittingConnections(options.maxConnections, openFiles);
  const tooFew = tooFewFiles(options.maxConnections, { maxConnections, openFiles });
  if (tooFew !== undefined) log.warn(tooFew);

  let ownAdmin: AdminAddress | undefined;
  const proxy = new ProxyProcess({
    ...{ clock, log, ready: options.ready, drainTimeoutMs: options.drainTimeoutMs },
    ...{ stopTimeoutMs: options.stopTimeoutMs, settleMs: options.settleMs },
    ...(standIn?.grace && { grace: standIn.grace }),
    notifier: new Notifier({ env: process.env, pid: process.pid, clock, log }),
    paths: Math.max(options.workers, 1),
    findControl: (hooks) =>
      createControl(options, {
        ...{ clock, random: systemRandom, log, stats, env: standIn?.env ?? process.env, ...hooks },
        engine,
      }),
    createPlane: ({ agent, source }, fetchCertificate) =>
      createPlane(engine, options, {
        ...{ holder, log, stats, logMemory: rings.memory, maxConnections },
        accessRings,
        onLines() {
          writer.drain();
          access.drain();
        },
        ...{ remoteAuthorize: boundedAuthorize(agent), fetchCertificate },
        onFirstUse: (upstreamId) => source.used([upstreamId]),
      }),
    async openAdmin() {
      if (bind.kind === "off") return undefined;
      const holderOf = (place: AdminAddress) => whoseAdmin(place, askAdmin);
      const admin = await startAdmin(view, { bind, tokenFile, holderOf }, log);
      ownAdmin = admin.address;
      return admin;
    },
    findRival: (proxyId) => findRival(proxyId, { ask: askAdmin, own: ownAdmin }),
    onInForce: (snapshot) => access.set(accessTargetOf(snapshot)),
    onFirstReady() {
      trimWhenQuiet({ clock, trim: () => engine.trim({ shared: true }), afterLoads: true });
      if (options.workers > 0) giveWayToTraffic();
    },
  });
  const view: AdminView = {
    clock,
    get info() {
      return {
        ...versionInfo(engine.name),
        pid: process.pid,
        workers: options.workers,
        startedMs,
        limits: { openFiles: descriptorLimit(), maxConnections },
        options: shownOptions(options, proxy.parts?.proxyId ?? ""),
      };
    },
    data: () => proxy.parts?.plane.views({ connections: true }) ?? Promise.resolve([]),
    endpoints: () =>
      proxy.parts?.plane.views({ connections: false, samples: false }) ?? Promise.resolve([]),
    explain: (question) => proxy.parts?.plane.explain(question) ?? Promise.resolve([]),
    mesh: () => proxy.parts?.agent,
    samples() {
      linesLost.add(rings.lost - linesLost.value);
      return stats.samples();
    },
    snapshot: () => proxy.snapshot,
    source: () => proxy.parts?.source.status(),
    unfollowed: (upstream) => proxy.parts?.source.unfollowed(upstream) ?? [],
    refused: () => [...proxy.parts?.source.refused ?? [], ...proxy.refused],
    secretsReport: () => proxy.parts?.source.secrets() ?? { statuses: [], events: [] },
    health: () => proxy.readiness.look(),
    catalog: createCatalogLook(() => proxy.parts && { ...proxy.parts, snapshot: proxy.snapshot }),
    stuck: () => proxy.parts?.plane.stuck() ?? Promise.resolve([]),
    draining: () => proxy.draining,
    secrets: () => proxy.parts?.secrets ?? [],
    logLevel: () => holder.level,
    setLogLevel(level) {
      holder.level = level;
      proxy.parts?.plane.setLogLevel(level);
    },
    reload: () => proxy.reload(),
    drainListeners: (which) => proxy.drainListeners(which),
    quit: () => proxy.stop({ grace: false }),
  };
  // From here on: a supervisor may stop us while we still wait for the agent.
  const signals = onSignals({
    stop: () => proxy.stop(),
    stopNow: () => proxy.hurry(),
    reload: () => void proxy.reload(),
    reopen: () => access.reopen(),
  });
  const sinks = standIn?.metrics === "none" ? undefined : new MetricSinks({
    ...{ view, stats, log, env: standIn?.env ?? process.env },
    prometheus: standIn === undefined,
  });
  let servers: Awaited<ReturnType<StandInOptions["open"]>> | undefined;
  try {
    servers = await standIn?.open(view, { log, stop: () => proxy.stop() });
    return await proxy.run();
  } catch (error) {
    // Whoever should read it may have stopped reading: not written here.
    writer.say(lastWords(error, { json: options.logJson, nowMs: clock.now() }));
    return exitCodeOf(error);
  } finally {
    signals.off();
    await servers?.close();
    await sinks?.close();
    await access.close();
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
    readonly accessRings: LogRings;
    readonly onLines: () => void;
    readonly maxConnections: number;
    readonly remoteAuthorize: RemoteAuthorize;
    readonly fetchCertificate: FetchCertificate;
    readonly onFirstUse: (upstreamId: string) => void;
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
    onFirstUse: deps.onFirstUse,
  };
  if (options.workers === 0) {
    const ring = deps.accessRings.of(0);
    const accessLines = createAccessLines({ clock: systemClock, ring, wake: deps.onLines });
    return createLocalPlane(engine, { ...common, accessLines });
  }
  return createWorkerPlane({
    ...common,
    workers: options.workers,
    logJson: options.logJson,
    logLevel: deps.holder.level,
    logMemory: deps.logMemory,
    accessMemory: deps.accessRings.memory,
    onLines: deps.onLines,
  });
}

/** The flags as the admin server may show them: no token, no key. */
function shownOptions(options: ProxyOptions, proxyId: string): Readonly<Record<string, unknown>> {
  const { agentFlags, serversFlags, mode, adminBind, warnings: _warnings, ...rest } = options;
  return {
    ...rest,
    mode: mode.kind === "agent" && serversFlags ? "servers" : mode.kind,
    ...shownMode(mode, proxyId),
    adminBind: adminBind.kind === "address"
      ? formatAddress({ ...adminBind, kind: "tcp" })
      : adminBind.kind,
    ...(serversFlags
      ? { servers: serversFlags.servers, node: serversFlags.node }
      : mode.kind === "config"
      ? {}
      : { agent: agentAddressText(agentFlags.httpAddr, process.env) }),
  };
}
