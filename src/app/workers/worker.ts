/** Entry point of a data worker: one data path on a thread of its own. @module */

import {
  clockFrom,
  type LevelHolder,
  ProxyError,
  systemClock,
  systemRandom,
} from "../../base/mod.ts";
import { runtimeEngine, socketsFor } from "../../net/mod.ts";
import { HookMarks } from "../../plugin/mod.ts";
import { DataPath, SharedCounts } from "../../proxy/mod.ts";
import {
  Channel,
  type MainCalls,
  type Port,
  type WorkerCalls,
  type WorkerStart,
} from "./channel.ts";
import { FailureContainer } from "./contain_failures.ts";
import { type AccessLines, createAccessLines, LogRings } from "../log/log_rings.ts";
import { createLogOutput } from "../log/log_output.ts";
import { heapBytes, heapSamples } from "./process_samples.ts";
import { LogOutbox } from "../telemetry/log_outbox.ts";
import { type SendTelemetry, type SpanOutbox, spanOutbox } from "../telemetry/outbox.ts";
import { spawnProcess } from "./spawn_process.ts";
import { trimWhenQuiet } from "./quiet_trim.ts";

const holder: LevelHolder = { level: "info" };
let started: DataPath | undefined;
/** The number of this worker. */
let number = 0;
let accessLines: AccessLines | undefined;
let spans: SpanOutbox | undefined;
let logs: LogOutbox | undefined;
let container: FailureContainer | undefined;
let marks: HookMarks | undefined;

const main: Channel<MainCalls, WorkerCalls> = new Channel(globalThis as unknown as Port, {
  start,
  prepare(update) {
    container?.expect(update);
    if (update.telemetry !== undefined) logs?.set(update.telemetry);
    return path().prepare(update);
  },
  publish: (columns) => path().publish(columns),
  abandon: () => path().abandon(),
  retryFailed: () => path().retryFailed(),
  listeners: () => path().listeners(),
  view(options) {
    const view = path().view(options);
    if (options.samples === false) return view;
    return { ...view, samples: [...view.samples, ...heapSamples(number)] };
  },
  used: () => path().used(),
  explain: (question) => path().explain(question),
  setTaps: (taps) => path().setTaps(taps),
  beat: heapBytes,
  setHeld: (held) => marks?.setHeld(held),
  drainInbound: () => path().drainInbound(),
  spawn: spawnProcess,
  accept: () => path().accept(),
  resume: (ejections) => path().resume(ejections),
  sockets: () => path().sockets(),
  drain: async (timeoutMs, options) => {
    await path().drain(timeoutMs, options);
    accessLines?.flush();
    spans?.flush();
    logs?.flush();
  },
  logLevel(level) {
    holder.level = level;
  },
});

function path(): DataPath {
  if (!started) throw new ProxyError("internal", "the worker has not been started");
  return started;
}

function start(
  { settings, nowMs, counts, logMemory, accessMemory, marks: memory, held, inherited, kept }:
    WorkerStart,
): void {
  holder.level = settings.logLevel;
  number = settings.worker;
  const engine = runtimeEngine();
  trimWhenQuiet({ clock: systemClock, trim: () => engine.trim(), afterLoads: false });
  const rings = new LogRings(logMemory);
  const wakeFor = (rings: LogRings) => () => {
    if (rings.call()) main.tell("lines");
  };
  const send: SendTelemetry = (batch, lost) => main.ask("telemetry", batch, lost);
  logs = new LogOutbox(systemClock, send);
  const log = createLogOutput({
    clock: systemClock,
    json: settings.logJson,
    holder,
    ring: rings.of(settings.worker),
    wake: wakeFor(rings),
    also: logs.takeLine,
  });
  const accessRings = new LogRings(accessMemory);
  accessLines = createAccessLines({
    clock: systemClock,
    ring: accessRings.of(settings.worker),
    wake: wakeFor(accessRings),
  });
  spans = spanOutbox(systemClock, send);
  marks = new HookMarks(memory, (id, plugin) => main.tell("marked", id, plugin));
  marks.setHeld(held);
  started = new DataPath({
    ...settings,
    engine,
    // The thread's own time begins with the thread; shared counts need the same time in all workers.
    clock: clockFrom(nowMs),
    random: systemRandom,
    log,
    takeLine: accessLines.take,
    takeSpan: spans.take,
    takeAccessRecord: logs.takeAccess,
    takeConditions: (changes) => main.ask("conditions", changes),
    takeTapped: (id, lines, dropped) => main.ask("tapped", id, lines, dropped),
    counts: new SharedCounts(counts),
    inherited: socketsFor(inherited, kept),
    marks,
    remoteAuthorize: (request) => main.ask("authorize", request),
    fetchCertificate: (request) => main.ask("fetchCertificate", request),
    lendCells: (...asked) => main.ask("lendCells", ...asked),
    onFirstUse: (upstreamId) => main.tell("firstUse", upstreamId),
  });
  container = new FailureContainer({
    log,
    stats: started.stats,
    nowMs: () => systemClock.monotonic(),
    onFailure: (plugin, reason) => started?.failedLoosely(plugin, reason),
  });
}

main.tell("ready");
