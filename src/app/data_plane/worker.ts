/**
 * Entry point of a data worker: one data path on its own thread, told what to do by the main thread.
 *
 * @module
 */

import { type LevelHolder, ProxyError, systemClock, systemRandom } from "../../base/mod.ts";
import { runtimeEngine } from "../../net/mod.ts";
import { DataPath, SharedCounts } from "../../proxy/mod.ts";
import { Channel, type Port } from "./channel.ts";
import { createLogOutput } from "../log/log_output.ts";
import { LogRings } from "../log/log_rings.ts";
import type { MainCalls, WorkerCalls, WorkerStart } from "./protocol.ts";

/** The first snapshot is applied, first connections have passed: what the start needed can go. */
const TRIM_MS = 2_000;

const holder: LevelHolder = { level: "info" };
let started: DataPath | undefined;

const main: Channel<MainCalls, WorkerCalls> = new Channel(globalThis as unknown as Port, {
  start,
  prepare: (update) => path().prepare(update),
  publish: (columns) => path().publish(columns),
  retryFailed: () => path().retryFailed(),
  listeners: () => path().listeners(),
  view: (options) => path().view(options),
  beat() {},
  drain: (timeoutMs) => path().drain(timeoutMs),
  logLevel(level) {
    holder.level = level;
  },
});

function path(): DataPath {
  if (!started) throw new ProxyError("internal", "the worker has not been started");
  return started;
}

function start({ settings, counts, logMemory }: WorkerStart): void {
  holder.level = settings.logLevel;
  const engine = runtimeEngine();
  systemClock.after(TRIM_MS, () => engine.trim());
  const rings = new LogRings(logMemory);
  const log = createLogOutput({
    clock: systemClock,
    json: settings.logJson,
    holder,
    ring: rings.of(settings.worker),
    wake: () => {
      if (rings.call()) main.tell("lines");
    },
  });
  started = new DataPath({
    ...settings,
    engine,
    clock: systemClock,
    random: systemRandom,
    log,
    counts: new SharedCounts(counts),
    remoteAuthorize: (request) => main.ask("authorize", request),
    fetchCertificate: (request) => main.ask("fetchCertificate", request),
  });
}

main.tell("ready");
