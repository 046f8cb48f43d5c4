/** `postern proxy`: the process with log, data plane, admin server and signals. @module */

import { resolve } from "node:path";
import process from "node:process";
import {
  type AdminAddress,
  type AdminView,
  askAdmin,
  type Listening,
  readAdminToken,
  startAdmin,
} from "../../admin/mod.ts";
import {
  clockFrom,
  formatAddress,
  type LevelHolder,
  type Log,
  ProxyError,
  Stats,
  systemClock,
  systemRandom,
} from "../../base/mod.ts";
import {
  descriptorLimit,
  InheritedSockets,
  type ListeningSocket,
  runtimeEngine,
  uptimeMs,
} from "../../net/mod.ts";
import { agentAddressText } from "../../consul/mod.ts";
import type { ProxyOptions } from "../flags/proxy_options.ts";
import { boundedAuthorize, createCatalogLook } from "./consul_questions.ts";
import { fittingConnections, tooFewFiles } from "./descriptors.ts";
import { SystemdSockets, takeActivated } from "./activation.ts";
import { findRival, shownMode, whoseAdmin } from "./find_admin.ts";
import { Handover } from "./handover.ts";
import { usualIdOf } from "./find_proxy.ts";
import { createLogOutput, createLogWriter, exitCodeOf, lastWords } from "../log/log_output.ts";
import { ACCESS_RING_BYTES, createAccessLines, LogRings } from "../log/log_rings.ts";
import { accessTargetOf, AccessWriter } from "../log/access_writer.ts";
import { Telemetry } from "../telemetry/telemetry.ts";
import { openSyslog } from "../log/syslog.ts";
import { Notifier } from "./notify.ts";
import { heapSamples, processSamples } from "../workers/process_samples.ts";
import { trimWhenQuiet } from "../workers/quiet_trim.ts";
import { ProxyProcess, type ShutdownGrace } from "./proxy_process.ts";
import { MetricSinks } from "./metric_sinks.ts";
import { onSignals } from "./signals.ts";
import { Successor } from "./successor.ts";
import { spawnProcess } from "../workers/spawn_process.ts";
import { createControl } from "./control.ts";
import { createPeersLook } from "./peers.ts";
import {
  EffectWatch,
  EventJournal,
  EventStore,
  firstSnapshotEvent,
  snapshotEvents,
} from "../../events/mod.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import { VERSION, versionInfo, versionLine } from "./version.ts";
import { createWorkerPlane } from "../workers/data_worker.ts";
import { giveWayToTraffic } from "../workers/priority.ts";

/** Servers of this process have taken their sockets by then. */
const UNUSED_SERVERS_MS = 10_000;

/** Differences of a proxy that takes the place of another program. */
interface StandInOptions {
  /** Variables, in place of this process's. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly grace?: ShutdownGrace;
  /** Metrics that the proxy's configuration wants: all but Prometheus, which `open` serves, or none. */
  readonly metrics: "sinks" | "none";
  /** Opens the servers that this program has besides, before the first request to Consul. */
  open(
    view: AdminView,
    deps: { readonly log: Log; stop(): void },
  ): Promise<{ close(): Promise<void> }>;
}

/** Runs until a signal or the admin server ends it; returns the exit code. */
export async function runProxy(options: ProxyOptions, standIn?: StandInOptions): Promise<number> {
  // The times in the shared state of plugins must mean the same to the next process of an upgrade.
  const bootedMs = uptimeMs();
  const clock = bootedMs === undefined ? systemClock : clockFrom(bootedMs);
  const env = standIn?.env ?? process.env;
  const holder: LevelHolder = { level: options.logLevel };
  const { adminBind: bind, adminTokenFile: tokenFile } = options;
  if (tokenFile !== undefined) readAdminToken(tokenFile);
  const { logJson: json, workers } = options;
  const write = options.syslog ? openSyslog({ path: options.syslog, clock }) : undefined;
  const writer = createLogWriter({ clock, json, workers, ...(write && { write }) });
  const { rings } = writer;
  const accessRings = LogRings.create(Math.max(workers, 1), ACCESS_RING_BYTES);
  const log = createLogOutput({
    clock,
    json,
    holder,
    ring: rings.own,
    wake: writer.drain,
    also: (record) => telemetry?.takeLine(record),
  });
  const activated = standIn ? [] : takeActivated(process.env, process.pid);
  const engine = runtimeEngine();
  const local = workers === 0 ? await import("../workers/local_plane.ts") : undefined;
  const stats = new Stats();
  const access = new AccessWriter({ rings: accessRings, clock, log, stats });
  const telemetry: Telemetry | undefined = new Telemetry({
    clock,
    random: systemRandom,
    log,
    stats,
    engine,
    version: VERSION,
    env,
    view: () => view,
  });
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

  const journal = new EventJournal({ clock, log });
  const { report } = journal;
  const purpose = purposeOf(options, env);
  const eventStore = options.stateDir === undefined ? undefined : new EventStore({
    directory: options.stateDir,
    name: nameOf(options),
    purpose,
    clock,
    log,
    journal,
  });
  let begun = false;
  /** Once it is known that no other process of this proxy stores its events any more. */
  const begin = async (how: "started" | "took over from the process before") => {
    if (begun) return;
    begun = true;
    const end = await eventStore?.load();
    // The process before drains, and ends later.
    const earlier = how === "started" ? end : undefined;
    const text = `${how}, version ${VERSION}${earlier?.text ?? ""}`;
    const severity = earlier?.isCrash ? "warn" : "info";
    report({ kind: "process", subject: nameOf(options), text, severity, isLogged: true });
    // So that a crash is known as one.
    void eventStore?.flush();
  };
  let inForce: Snapshot | undefined;
  const effects = new EffectWatch({
    clock,
    journal,
    views: () => proxy.parts?.plane.views({ connections: false }) ?? Promise.resolve([]),
  });
  const notifier = new Notifier({ env: process.env, pid: process.pid, clock, log });
  const handover = standIn ? undefined : new Handover({
    clock,
    log,
    purpose,
    onFailedStart: (reason) => successor?.note(reason),
  });
  const successor: Successor | undefined = handover && new Successor({
    clock,
    log,
    env,
    isNotified: notifier.enabled,
    spawn: (start) => proxy.parts?.plane.spawn(start) ?? spawnProcess(start),
    isServedBy: (pid) => proxy.takenBy === pid || handover.isServedBy(pid),
    failureOf: (pid) => handover.failureOf(pid),
    reportFailure: (reason) => handover.reportFailedStart(reason),
  });
  if (!handover?.hasPredecessor) await begin("started");
  let admin: Listening | undefined;
  /** Sockets of servers of the process before. */
  let inherited: InheritedSockets | undefined;
  const proxy: ProxyProcess = new ProxyProcess({
    ...options,
    clock,
    log,
    ...(standIn?.grace && { grace: standIn.grace }),
    notifier,
    paths: Math.max(workers, 1),
    findControl: (hooks) =>
      createControl(options, {
        clock,
        random: systemRandom,
        log,
        stats,
        report,
        env,
        engine,
        ...hooks,
      }),
    systemd: new SystemdSockets({ activated, notifier, log, env: standIn ? {} : process.env }),
    ...(handover && { handover }),
    serverSockets() {
      // The next process reads them when it takes over.
      void eventStore?.flush();
      return [...admin ? socketsOf(admin) : [], ...sinks?.sockets() ?? []];
    },
    leaveServers() {
      eventStore?.leave();
      admin?.leave();
      sinks?.leave();
    },
    createPlane({ agent, source }, fetchCertificate, before) {
      const { idleTimeoutMs, lifetimeMs } = options;
      const plane = {
        clock,
        log,
        stats,
        report,
        maxConnections,
        idleTimeoutMs,
        lifetimeMs,
        remoteAuthorize: boundedAuthorize(agent),
        fetchCertificate,
        sendTelemetry: telemetry.take,
        onFirstUse: (upstreamId: string) => source.used([upstreamId]),
        ...before,
      };
      const onLines = () => {
        writer.drain();
        access.drain();
      };
      if (local) {
        const accessLines = createAccessLines({ clock, ring: accessRings.of(0), wake: onLines });
        return local.createLocalPlane(engine, { ...plane, accessLines });
      }
      return createWorkerPlane({
        ...plane,
        workers,
        logJson: json,
        logLevel: holder.level,
        logMemory: rings.memory,
        accessMemory: accessRings.memory,
        onLines,
      });
    },
    async openAdmin({ inherited: sockets, kept }) {
      await begin(proxy.isHeld ? "took over from the process before" : "started");
      inherited = new InheritedSockets(sockets ?? [], { held: false, kept });
      if (bind.kind === "off") return undefined;
      const holderOf = (place: AdminAddress) => whoseAdmin(place, askAdmin);
      return admin = await startAdmin(view, { bind, tokenFile, holderOf, inherited }, log);
    },
    findRival: (proxyId) => findRival(proxyId, { ask: askAdmin, own: admin?.address }),
    onInForce(snapshot, ended) {
      access.set(accessTargetOf(snapshot));
      telemetry.set(snapshot);
      const events = inForce
        ? snapshotEvents(inForce, snapshot, ended)
        : [firstSnapshotEvent(snapshot)];
      effects.report(events, { before: inForce, after: snapshot });
      inForce = snapshot;
    },
    onFirstReady() {
      trimWhenQuiet({ clock, trim: () => engine.trim({ shared: true }), afterLoads: true });
      // At an address where no server listens any more, clients would wait.
      clock.after(UNUSED_SERVERS_MS, () => inherited?.close());
      if (workers > 0) giveWayToTraffic();
    },
  });
  const view: AdminView = {
    clock,
    get info() {
      return {
        ...versionInfo(engine.name),
        pid: process.pid,
        workers,
        startedMs,
        ...(successor && { upgrade: successor.state }),
        limits: { openFiles: descriptorLimit(), maxConnections },
        options: shownOptions(options, proxy.parts?.proxyId ?? ""),
      };
    },
    data: () => proxy.parts?.plane.views({ connections: true }) ?? Promise.resolve([]),
    endpoints: () =>
      proxy.parts?.plane.views({ connections: false, samples: false }) ?? Promise.resolve([]),
    tap(filter, take) {
      const plane = proxy.parts?.plane;
      if (!plane) throw new ProxyError("not_ready", "Cannot open a tap: there is no state yet");
      return plane.tap(filter, take);
    },
    explain: (question) => proxy.parts?.plane.explain(question) ?? Promise.resolve([]),
    mesh: () => proxy.parts?.agent,
    samples() {
      linesLost.add(rings.lost - linesLost.value);
      const { version, commit, engine: runtime, platform } = view.info;
      const service = proxy.snapshot?.service;
      const build = {
        version,
        commit,
        engine: runtime,
        platform,
        // The name of the label is Consul's.
        ...(service !== undefined && { local_cluster: service }),
      };
      const openFilesLimit = view.info.limits.openFiles;
      return [...stats.samples(), ...processSamples({ openFilesLimit, build }), ...heapSamples()];
    },
    snapshot: () => proxy.snapshot,
    source: () => proxy.parts?.source.status(),
    unfollowed: (upstream) => proxy.parts?.source.unfollowed(upstream) ?? [],
    refused: () => [...proxy.parts?.source.refused ?? [], ...proxy.refused],
    secretsReport: () => proxy.parts?.source.secrets() ?? { statuses: [] },
    events: () => journal,
    health: () => proxy.readiness.look(),
    peers: createPeersLook({
      clock,
      ask: askAdmin,
      admins: options.adminPeers ?? [],
      own: () => admin?.address,
    }),
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
  // Before the agent is reached: a supervisor may stop the process while it waits for the agent.
  const signals = onSignals({
    stop() {
      successor?.signal("SIGTERM");
      proxy.stop();
    },
    stopNow() {
      successor?.signal("SIGTERM");
      proxy.hurry();
    },
    reload() {
      successor?.signal("SIGHUP");
      if (proxy.takenBy === undefined) void proxy.reload();
    },
    reopen() {
      successor?.signal("SIGUSR1");
      access.reopen();
    },
    ...(successor && { upgrade: () => void successor.start() }),
  });
  const sinks: MetricSinks | undefined = standIn?.metrics === "none" ? undefined : new MetricSinks({
    view,
    stats,
    log,
    env,
    prometheus: standIn === undefined,
    isHeld: () => proxy.isHeld,
    inherited: () => inherited,
  });
  let servers: Awaited<ReturnType<StandInOptions["open"]>> | undefined;
  try {
    servers = await standIn?.open(view, { log, stop: () => proxy.stop() });
    const code = await proxy.run();
    if (proxy.takenBy === undefined) return code;
    await sinks?.close();
    engine.trim({ shared: true });
    return await successor?.outlive() ?? code;
  } catch (error) {
    // Through the writer, which does not wait: standard error may have no reader.
    writer.say(lastWords(error, { json, nowMs: clock.now() }));
    return exitCodeOf(error);
  } finally {
    signals.off();
    await servers?.close();
    await sinks?.close();
    await Promise.all([access.close(), telemetry.close(), eventStore?.close()]);
  }
}

/** The flags as the admin server may show them: no token, no key. */
function shownOptions(options: ProxyOptions, proxyId: string): Readonly<Record<string, unknown>> {
  const { agentFlags, serversFlags, mode, adminBind, warnings: _warnings, ...rest } = options;
  const peers = options.adminPeers?.map((address) => formatAddress(address));
  return {
    ...rest,
    mode: mode.kind === "agent" && serversFlags ? "servers" : mode.kind,
    ...shownMode(mode, proxyId),
    adminBind: adminBind.kind === "address"
      ? formatAddress({ ...adminBind, kind: "tcp" })
      : adminBind.kind,
    ...(peers && { adminPeers: peers }),
    ...(serversFlags
      ? { servers: serversFlags.servers, node: serversFlags.node }
      : mode.kind === "config"
      ? {}
      : { agent: agentAddressText(agentFlags.httpAddr, process.env) }),
  };
}

function socketsOf({ address, copies }: Listening): readonly ListeningSocket[] {
  return copies().map((fd) => ({ address: formatAddress(address), fd }));
}

/** The id that the proxy has, or will probably have, or its file. */
function nameOf({ mode }: Pick<ProxyOptions, "mode">): string {
  if (mode.kind === "config") return resolve(mode.file);
  return mode.kind === "agent" ? usualIdOf(mode) : mode.proxyId;
}

/** The same for all processes that are this proxy, one after the other, and for no other. */
function purposeOf(
  { mode, agentFlags, serversFlags }: ProxyOptions,
  env: Readonly<Record<string, string | undefined>>,
): string {
  const id = nameOf({ mode });
  if (mode.kind === "config") return JSON.stringify(["config", id]);
  const { namespace, partition } = agentFlags;
  const consul = serversFlags
    ? [serversFlags.servers, serversFlags.node]
    : [agentAddressText(agentFlags.httpAddr, env)];
  return JSON.stringify([id, namespace, partition, ...consul]);
}
