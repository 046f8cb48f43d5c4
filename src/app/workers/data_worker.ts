/** The data plane in worker threads. A worker that dies is replaced. @module */

import { formatSpanMs, type LogLevel, messageOf, ProxyError, type Timer } from "../../base/mod.ts";
import { duplicate, endsBusyThreads, type ListeningSocket, shareOut } from "../../net/mod.ts";
import {
  type HoldingPlugin,
  HookWatch,
  type OpenSharedCells,
  PluginsRefused,
  SharedCells,
} from "../../plugin/mod.ts";
import {
  type Columns,
  type ListenerView,
  PROCESS_COLUMN,
  type PublishEffect,
  SharedCounts,
} from "../../proxy/mod.ts";
import { diffSnapshots, type Snapshot } from "../../snapshot/mod.ts";
import { WorkerConditions } from "../../events/mod.ts";
import { Channel, type MainCalls, type Port, type WorkerCalls } from "./channel.ts";
import { BEAT_LOOKS, HeldPlugins, HOLD_LIMITS } from "./held_plugins.ts";
import { type DataPlane, OpenTaps, type PlaneOptions } from "./plane.ts";
import { startTrafficThread } from "./priority.ts";
import type { ProxyOptions } from "../flags/proxy_options.ts";
import { Rollout, type RolloutMember } from "./rollout.ts";

type Settings = "workers" | "logJson" | "logLevel";

interface WorkerPlaneOptions extends PlaneOptions, Pick<ProxyOptions, Settings> {
  readonly logMemory: SharedArrayBuffer;
  readonly accessMemory: SharedArrayBuffer;
  /** Called when a worker has put lines into its rings. */
  readonly onLines: () => void;
  /** Replaced in tests; default: the data worker. */
  readonly createWorker?: () => Worker;
  /** Whether a worker that is held by a plugin can be ended; default: what the runtime can. */
  readonly endsThreads?: boolean;
}

interface DataWorkerOptions {
  readonly worker: number;
  readonly counts: SharedCounts;
  readonly plane: WorkerPlaneOptions;
  readonly lendCells: OpenSharedCells;
  readonly taps: OpenTaps;
  readonly conditions: WorkerConditions;
  readonly held: HeldPlugins;
  isInForce(snapshot: Snapshot): boolean;
  level(): LogLevel;
  /** Sockets for the next thread; `undefined`: it accepts at once. */
  takeInherited(): readonly ListeningSocket[] | undefined;
  /** Called when the worker can take a snapshot. */
  onStarted(): void;
}

/** A snapshot that a worker prepares. */
interface Preparing {
  readonly snapshot: Snapshot;
  /** Why it is refused before the worker has answered. */
  readonly refused: PromiseWithResolvers<never>;
  isRefused: boolean;
}

type WorkerChannel = Channel<WorkerCalls, MainCalls>;

/** A worker without an answer for this long is stuck. */
const STUCK_MS = 2_000;
/** Delay before a dead worker is replaced; it doubles while replacements die young. */
const RESTART_MS = 200;
const RESTART_MAX_MS = 10_000;
const YOUNG_MS = 10_000;
/** Time limit for the start of a worker; it doubles after each failure in a row. */
const START_TIMEOUT_MS = 10_000;
const START_TIMEOUT_MAX_MS = 80_000;

class DataWorker implements RolloutMember {
  published: Snapshot | undefined;
  readonly #options: DataWorkerOptions;
  /** Resolves when the first thread runs, or was given up. */
  readonly #first = Promise.withResolvers<void>();
  #thread: Worker | undefined;
  #watch = new HookWatch();
  #preparing: Preparing | undefined;
  /** A plugin holds it, and it cannot be ended. */
  isHeld = false;
  #channel: WorkerChannel | undefined;
  #listeners: Promise<readonly ListenerView[] | undefined> | undefined;
  #beat: Promise<void> | undefined;
  #beatMs: number | undefined;
  #restart: Timer | undefined;
  #restartMs = RESTART_MS / 2;
  #startedMs = 0;
  /** When the last thread died, until another one serves. */
  #diedMs: number | undefined;
  #startTimeoutMs = START_TIMEOUT_MS;
  #late: Timer | undefined;
  #closed = false;

  constructor(options: DataWorkerOptions) {
    this.#options = options;
    this.#spawn();
  }

  async prepare(snapshot: Snapshot): Promise<boolean> {
    // All workers start together; a replacement is not waited for.
    await this.#first.promise;
    const channel = this.#channel;
    if (!channel || this.isHeld) return false;
    const refused = Promise.withResolvers<never>();
    const preparing = this.#preparing = { snapshot, refused, isRefused: false };
    try {
      const answer = channel.ask("prepare", diffSnapshots(this.published, snapshot));
      await Promise.race([answer, refused.promise]);
      return true;
    } catch (error) {
      if (this.#channel !== channel && !preparing.isRefused) return false;
      throw error;
    } finally {
      if (this.#preparing === preparing) this.#preparing = undefined;
    }
  }

  /** Looks whether a plugin holds the worker; then it is replaced. True: it has plugins from files. */
  look(turn: number): boolean {
    const thread = this.#thread;
    const { held, onStarted } = this.#options;
    if (!thread || !this.#watch.isUsed) return false;
    if (turn % BEAT_LOOKS === 0) void this.beat();
    const holding = this.#watch.look(this.#beat === undefined, HOLD_LIMITS);
    if (this.isHeld && !this.#watch.isHeld) {
      this.isHeld = false;
      onStarted();
    }
    if (!holding) return true;
    const reason = this.#blame(holding);
    // A plugin that holds workers is soon not called any more: no delay is needed.
    if (held.endsThreads) this.#died(thread, reason, { isReplacedAtOnce: true });
    else this.isHeld = true;
    return true;
  }

  /** Counts it for the plugin. What is new in a snapshot that is being prepared is refused. Returns the reason. */
  #blame(holding: HoldingPlugin): string {
    const { worker, held, isInForce } = this.#options;
    const preparing = this.#preparing;
    const isNew = preparing !== undefined && !isInForce(preparing.snapshot);
    const reason = held.take(worker, holding, isNew);
    if (preparing && isNew && holding.isSetup) {
      const why = `Cannot use the snapshot: data worker ${worker}: ${reason}`;
      preparing.isRefused = true;
      const { listener } = holding.plugin;
      preparing.refused.reject(new PluginsRefused([{ listener, reason: why, isHeld: true }]));
    }
    return reason;
  }

  setHeld(): void {
    this.#channel?.tell("setHeld", this.#options.held.list);
  }

  async publish(snapshot: Snapshot, columns: Columns): Promise<readonly PublishEffect[]> {
    const channel = this.#channel;
    if (!channel) return [];
    this.published = snapshot;
    try {
      const effects = await channel.ask("publish", columns);
      this.#replaced();
      return effects;
    } catch (error) {
      if (this.#channel === channel) throw error;
      return [];
    }
  }

  #replaced(): void {
    if (this.#diedMs === undefined) return;
    const { worker, plane: { clock, report } } = this.#options;
    const afterMs = clock.monotonic() - this.#diedMs;
    this.#diedMs = undefined;
    report?.({
      kind: "process",
      subject: `worker ${worker}`,
      text: `data worker ${worker} was replaced after ${formatSpanMs(afterMs + 999)}`,
    });
  }

  abandon(): void {
    this.#channel?.tell("abandon");
  }

  giveUp(reason: string): void {
    if (this.#thread) this.#died(this.#thread, reason);
  }

  /** `undefined`: the worker is gone, or failed. */
  async ask<Name extends keyof WorkerCalls>(
    name: Name,
    ...given: Parameters<WorkerCalls[Name]>
  ): Promise<Awaited<ReturnType<WorkerCalls[Name]>> | undefined> {
    const channel = this.#channel;
    try {
      return await channel?.ask(name, ...given);
    } catch (error) {
      const { worker, plane: { log } } = this.#options;
      if (this.#channel === channel) {
        log.error("data worker cannot answer", { worker, question: name, error: messageOf(error) });
      }
      return undefined;
    }
  }

  tell(level: LogLevel): void {
    this.#channel?.tell("logLevel", level);
  }

  /** One call at a time, so that calls do not pile up at a stuck worker. */
  listeners(): Promise<readonly ListenerView[] | undefined> {
    if (!this.#channel) return Promise.resolve([]);
    return this.#listeners ??= this.ask("listeners").finally(() => this.#listeners = undefined);
  }

  /** One beat at a time; a worker that starts or is gone has its own time limits. */
  beat(): Promise<void> {
    if (!this.#channel) return Promise.resolve();
    this.#beatMs ??= this.#options.plane.clock.monotonic();
    const { worker, held } = this.#options;
    return this.#beat ??= this.ask("beat").then((bytes) => {
      if (bytes !== undefined) held.heap(worker, bytes, this.#watch.plugins);
    }).finally(() => this.#beat = this.#beatMs = undefined);
  }

  get untilStuckMs(): number {
    if (this.#beatMs === undefined) return STUCK_MS;
    return this.#beatMs + STUCK_MS - this.#options.plane.clock.monotonic();
  }

  /** The worker is not replaced any more. */
  retire(): void {
    this.#closed = true;
    this.#restart?.cancel();
  }

  terminate(): void {
    this.retire();
    this.#late?.cancel();
    this.#channel?.close();
    this.#thread?.terminate();
    this.#thread = undefined;
  }

  #spawn(): void {
    const { worker, plane, lendCells, taps, conditions, held } = this.#options;
    const { clock, createWorker = createDataWorker, onLines, onFirstUse } = plane;
    const { thread, isLower } = startTrafficThread(createWorker);
    this.#thread = thread;
    if (isLower) {
      plane.log.warn("replaced data worker has the lower priority of the control thread", {
        worker,
        fix: "give the proxy CAP_SYS_NICE, or restart it",
      });
    }
    const watch = this.#watch = new HookWatch();
    this.#startedMs = clock.monotonic();
    const channel: WorkerChannel = new Channel(thread as Port, {
      ready: () => this.#runs(thread, channel),
      lines: onLines,
      firstUse: (upstreamId) => onFirstUse?.(upstreamId),
      telemetry: plane.sendTelemetry,
      marked: (id, plugin) => {
        watch.take(id, plugin);
        held.watch();
      },
      conditions: (changes) => Promise.resolve(conditions.take(worker, changes)),
      tapped: (id, lines, dropped) => Promise.resolve(taps.take(id, lines, dropped)),
      authorize: plane.remoteAuthorize,
      fetchCertificate: plane.fetchCertificate,
      lendCells,
    });
    const timeoutMs = this.#startTimeoutMs;
    this.#late = clock.after(timeoutMs, () => {
      // A slow machine needs a longer limit.
      this.#startTimeoutMs = Math.min(timeoutMs * 2, START_TIMEOUT_MAX_MS);
      this.#died(thread, `it did not start within ${timeoutMs / 1000} s`);
    });
    thread.onerror = (event) => {
      event.preventDefault();
      this.#died(thread, event.message);
    };
    thread.addEventListener("close", () => {
      if (this.#thread !== thread) return;
      const ended = watch.ended();
      this.#died(thread, ended ? this.#blame(ended) : "it ended");
    });
  }

  #runs(thread: Worker, channel: WorkerChannel): void {
    // A thread that was given up is not its successor.
    if (this.#thread !== thread) return;
    const { worker, counts, plane, held, level, takeInherited, onStarted } = this.#options;
    const { workers, maxConnections, idleTimeoutMs, lifetimeMs, logJson } = plane;
    this.#late?.cancel();
    this.#startTimeoutMs = START_TIMEOUT_MS;
    const settings = { worker, workers, maxConnections, idleTimeoutMs, lifetimeMs, logJson };
    channel.tell("start", {
      settings: { ...settings, logLevel: level() },
      nowMs: plane.clock.monotonic(),
      counts: counts.memory,
      logMemory: plane.logMemory,
      accessMemory: plane.accessMemory,
      marks: this.#watch.memory,
      held: held.list,
      inherited: takeInherited(),
      kept: plane.kept ?? [],
    });
    this.#channel = channel;
    const { open } = this.#options.taps;
    if (open.length > 0) channel.tell("setTaps", open);
    this.#first.resolve();
    onStarted();
  }

  #died(thread: Worker, reason: string, { isReplacedAtOnce = false } = {}): void {
    if (this.#thread !== thread) return;
    const { worker, counts, conditions, plane: { clock, log, report } } = this.#options;
    const channel = this.#channel;
    this.#late?.cancel();
    this.#thread = undefined;
    this.#channel = undefined;
    this.published = undefined;
    this.isHeld = false;
    thread.terminate();
    // The only report of the lost connections: their log lines died with the worker.
    const connections = counts.of(worker, PROCESS_COLUMN);
    counts.clearRow(worker);
    channel?.close();
    conditions.forget(worker);
    this.#first.resolve();
    if (this.#closed) return;
    log.error("data worker died; starting another", { worker, connections, reason });
    this.#diedMs ??= clock.monotonic();
    report?.({
      kind: "process",
      subject: `worker ${worker}`,
      text: `data worker ${worker} died: ${errorLine(reason)}`,
      effect: connections === 0 ? "" : `${connections} connections ended`,
      severity: "error",
      isLogged: true,
    });
    const young = !isReplacedAtOnce && clock.monotonic() - this.#startedMs < YOUNG_MS;
    this.#restartMs = young ? Math.min(this.#restartMs * 2, RESTART_MAX_MS) : RESTART_MS;
    this.#restart = clock.after(isReplacedAtOnce ? 0 : this.#restartMs, () => this.#spawn());
  }
}

/** Bun's message begins with an excerpt of the code. */
function errorLine(message: string): string {
  const [line] = /^\s*(?:uncaught )?\w*error: .*/im.exec(message) ?? message.split("\n");
  return (line ?? "").trim();
}

function createDataWorker(): Worker {
  // A small heap: what passes through is not kept.
  const options = { type: "module", smol: true } as WorkerOptions;
  return new Worker(new URL("./worker.ts", import.meta.url), options);
}

/** Time limit of a worker's answer to the admin server. */
const VIEW_TIMEOUT_MS = 1_000;
/** Time limit of an answer that takes connections to endpoints. */
const EXPLAIN_TIMEOUT_MS = 3_500;
/** Connections have this long to be closed when a drain is over. */
const AFTER_DRAIN_MS = 1_000;

export function createWorkerPlane(options: WorkerPlaneOptions): DataPlane {
  const { clock, workers: count } = options;
  const counts = SharedCounts.create(count);
  const cells = new SharedCells({ before: options.cells, log: options.log });
  let level = options.logLevel;
  /** By worker; a replacement of a worker binds the addresses itself. */
  const inherited = options.inherited && [...shareOut(options.inherited, count, duplicate)];
  let isHeld = inherited !== undefined;
  /** A stuck worker does not delay the caller. */
  const soon = <T>(answer: Promise<T>, withinMs = VIEW_TIMEOUT_MS): Promise<T | undefined> =>
    new Promise((resolve) => {
      const late = clock.after(withinMs, () => resolve(undefined));
      answer.then((value) => {
        late.cancel();
        resolve(value);
      });
    });
  const taps = new OpenTaps((open) => {
    for (const worker of workers) void worker.ask("setTaps", open);
  });
  const { report = () => {} } = options;
  const conditions = new WorkerConditions({ clock, report, workers: count });
  const held = new HeldPlugins({
    ...options,
    report,
    endsThreads: options.endsThreads ?? endsBusyThreads(),
    look: (turn) => workers.map((worker) => worker.look(turn)).includes(true),
    onChange() {
      for (const worker of workers) worker.setHeld();
    },
  });
  const workers: readonly DataWorker[] = Array.from(
    { length: count },
    (_, worker) =>
      new DataWorker({
        worker,
        counts,
        plane: options,
        taps,
        conditions,
        held,
        isInForce: (snapshot) => snapshot === rollout.published,
        lendCells: async (...asked) => await cells.lend(...asked),
        level: () => level,
        takeInherited() {
          const [own = []] = inherited?.splice(worker, 1, []) ?? [];
          return isHeld ? own : undefined;
        },
        onStarted: () => rollout.look(),
      }),
  );
  const rollout = new Rollout({ ...options, counts, members: workers });
  /** Answers of all workers that come in time. */
  const answers = async <T>(
    ask: (worker: DataWorker) => Promise<T | undefined>,
    withinMs?: number,
  ): Promise<readonly T[]> => {
    const all = await Promise.all(workers.map((worker) => soon(ask(worker), withinMs)));
    return all.filter((answer) => answer !== undefined);
  };

  return {
    rollout,
    async retryFailed() {
      const able = workers.filter(({ isHeld }) => !isHeld);
      const bound = await Promise.all(able.map((worker) => worker.ask("retryFailed")));
      return bound.every((all) => all === true);
    },
    listeners: () => answers((worker) => worker.listeners()),
    views: (wanted) => answers((worker) => worker.ask("view", wanted)),
    used: () => answers((worker) => worker.ask("used")),
    explain: (question) => answers((worker) => worker.ask("explain", question), EXPLAIN_TIMEOUT_MS),
    tap: (filter, take) => taps.add(filter, take),
    async stuck() {
      await Promise.all(workers.map((worker) => soon(worker.beat(), worker.untilStuckMs)));
      return workers.flatMap(({ untilStuckMs }, worker) =>
        untilStuckMs > 0 ? [] : [`data worker ${worker} has not answered for ${STUCK_MS / 1_000} s`]
      );
    },
    setLogLevel(next) {
      level = next;
      for (const worker of workers) worker.tell(next);
    },
    drainInbound() {
      for (const worker of workers) void worker.ask("drainInbound");
    },
    async spawn(start) {
      // The main thread has a lower priority, which the program would inherit.
      const [first] = workers;
      const pid = await first?.ask("spawn", start);
      if (pid !== undefined) return pid;
      throw new ProxyError("internal", "the data worker cannot start a program; see its log line");
    },
    async accept() {
      isHeld = false;
      await Promise.all(workers.map((worker) => soon(worker.ask("accept"))));
    },
    cells: () => cells.surviving,
    async resume({ ejections, cells: before }) {
      cells.goOn(before);
      await answers((worker) => worker.ask("resume", ejections));
    },
    sockets: async () => (await answers((worker) => worker.ask("sockets"))).flat(),
    async drain(timeoutMs, how) {
      for (const worker of workers) worker.retire();
      const withinMs = timeoutMs + AFTER_DRAIN_MS;
      await Promise.all(
        workers.map((worker) => soon(worker.ask("drain", timeoutMs, how), withinMs)),
      );
    },
    close() {
      rollout.close();
      held.close();
      for (const worker of workers) worker.terminate();
    },
  };
}
