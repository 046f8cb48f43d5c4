/**
 * Entry point of a data worker: one data path on its own thread, told what to do by the main thread.
 *
 * @module
 */

import { type LevelHolder, ProxyError, systemClock, systemRandom } from "../base/mod.ts";
import { runtimeEngine } from "../net/mod.ts";
import {
  DataPath,
  type FetchCertificate,
  type RemoteAuthorize,
  SharedCounts,
} from "../proxy/mod.ts";
import { createLogOutput } from "./log/log_output.ts";
import { LogRings } from "./log/log_rings.ts";
import type { FromWorker, ToWorker } from "./protocol.ts";

interface WorkerScope {
  postMessage(message: FromWorker): void;
  onmessage: ((event: { readonly data: ToWorker }) => void) | null;
}

/** The first snapshot is applied, first connections have passed: what the start needed can go. */
const TRIM_MS = 2_000;

const scope = globalThis as unknown as WorkerScope;
const holder: LevelHolder = { level: "info" };
const questions = new Map<number, (answer: Extract<ToWorker, { kind: "authorized" }>) => void>();
const fetches = new Map<number, (available: boolean) => void>();
let lastQuestion = 0;
let path: DataPath | undefined;

const remoteAuthorize: RemoteAuthorize = (request) =>
  new Promise((resolve, reject) => {
    const id = ++lastQuestion;
    questions.set(id, ({ allowed, reason, failed }) => {
      questions.delete(id);
      if (failed) reject(new ProxyError("authorize_failed", reason));
      else resolve({ allowed, reason });
    });
    scope.postMessage({ kind: "authorize", id, ...request });
  });

const fetchCertificate: FetchCertificate = (request) =>
  new Promise((resolve) => {
    const id = ++lastQuestion;
    fetches.set(id, resolve);
    scope.postMessage({ kind: "fetch_certificate", id, ...request });
  });

function start({ settings, counts, logMemory }: Extract<ToWorker, { kind: "start" }>): void {
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
      if (rings.call()) scope.postMessage({ kind: "lines" });
    },
  });
  path = new DataPath({
    ...settings,
    engine,
    clock: systemClock,
    random: systemRandom,
    log,
    counts: new SharedCounts(counts),
    remoteAuthorize,
    fetchCertificate,
  });
}

scope.onmessage = async ({ data: message }) => {
  const done = (value?: Extract<FromWorker, { kind: "done" }>["value"]) => {
    if ("id" in message) {
      scope.postMessage({ kind: "done", id: message.id, ...(value !== undefined && { value }) });
    }
  };
  switch (message.kind) {
    case "start":
      return start(message);
    case "apply":
      await path?.apply(message.update, message.columns);
      return done();
    case "retry":
      return done(await path?.retryFailed() ?? false);
    case "beat":
      return done(true);
    case "listeners":
      return done(path?.listeners() ?? []);
    case "view":
      return done(path?.view({ connections: message.connections }));
    case "drain":
      await path?.drain(message.timeoutMs);
      return done();
    case "log_level":
      holder.level = message.level;
      return;
    case "certificate_fetched":
      fetches.get(message.id)?.(message.available);
      fetches.delete(message.id);
      return;
    case "authorized":
      return questions.get(message.id)?.(message);
  }
};

scope.postMessage({ kind: "ready" });
