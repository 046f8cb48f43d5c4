/**
 * The data plane in worker threads. A worker that dies is replaced and gets the whole snapshot; the
 * others go on serving meanwhile.
 *
 * @module
 */

import { type LogLevel, messageOf, type Timer } from "../base/mod.ts";
import { type DataView, type ListenerView, SharedCounts } from "../proxy/mod.ts";
import { diffSnapshots, type Snapshot } from "../snapshot/mod.ts";
import { ColumnTable } from "./columns.ts";
import type { DataPlane, PlaneOptions } from "./plane.ts";
import type { FromWorker, ToWorker, WorkerSettings } from "./protocol.ts";

export interface WorkerPlaneOptions extends PlaneOptions {
  readonly workers: number;
  readonly logJson: boolean;
  readonly logLevel: LogLevel;
  readonly logMemory: SharedArrayBuffer;
  /** A worker has put lines there. */
  readonly onLines: () => void;
  /** For tests; default the data worker. */
  readonly createWorker?: () => Worker;
}

/** How long a worker may take to answer for the admin server. */
const VIEW_TIMEOUT_MS = 1_000;
/** A worker that has not answered for so long is stuck. */
const STUCK_MS = 2_000;
/** Connections have this long to be closed when a drain is over. */
const AFTER_DRAIN_MS = 1_000;
/** A worker that dies is started again after this, and ever later while it dies young. */
const RESTART_MS = 200;
const RESTART_MAX_MS = 10_000;
const YOUNG_MS = 10_000;
/** A worker that has not said that it runs is given up after this; longer each time in a row. */
const START_TIMEOUT_MS = 10_000;
const START_TIMEOUT_MAX_MS = 80_000;

type Answer = Extract<FromWorker, { kind: "done" }>["value"];

export function createWorkerPlane(options: WorkerPlaneOptions): DataPlane {
  const counts = SharedCounts.create(options.workers);
  const columns = new ColumnTable(counts);
  let level = options.logLevel;
  let latest: Snapshot | undefined;
  let closed = false;
  /** A worker may be stuck: whoever asks is not. */
  const soon = (answer: Promise<Answer>, withinMs = VIEW_TIMEOUT_MS): Promise<Answer> =>
    new Promise((resolve) => {
      const late = options.clock.after(withinMs, () => resolve(undefined));
      answer.then((value) => {
        late.cancel();
        resolve(value);
      });
    });
  const handles = Array.from({ length: options.workers }, (_, worker) =>
    new WorkerHandle({
      worker,
      counts,
      options,
      level: () => level,
      snapshot: () => latest,
      columns,
      closed: () => closed,
    }));

  return {
    async apply(snapshot) {
      latest = snapshot;
      await Promise.all(handles.map((handle) => handle.apply(snapshot)));
      columns.settled(snapshot);
    },
    async retryFailed() {
      const bound = await Promise.all(handles.map((handle) => handle.ask({ kind: "retry" })));
      return bound.every((all) => all === true);
    },
    async listeners() {
      const answers = await Promise.all(
        handles.map((handle) => handle.isThere ? soon(handle.listeners()) : []),
      );
      return answers.filter((answer): answer is readonly ListenerView[] => Array.isArray(answer));
    },
    async views({ connections }) {
      const views = await Promise.all(
        handles.map((handle) => soon(handle.ask({ kind: "view", connections }))),
      );
      return views.filter((view): view is DataView => typeof view === "object");
    },
    async stuck() {
      await Promise.all(handles.map((handle) => soon(handle.beat(), handle.untilStuckMs)));
      return handles.flatMap(({ untilStuckMs }, worker) =>
        untilStuckMs > 0 ? [] : [`data worker ${worker} has not answered for ${STUCK_MS / 1_000} s`]
      );
    },
    setLogLevel(next) {
      level = next;
      for (const handle of handles) handle.send({ kind: "log_level", level: next });
    },
    async drain(timeoutMs) {
      closed = true;
      await Promise.all(
        handles.map((handle) =>
          soon(handle.ask({ kind: "drain", timeoutMs }), timeoutMs + AFTER_DRAIN_MS)
        ),
      );
    },
    close() {
      closed = true;
      for (const handle of handles) handle.terminate();
    },
  };
}

interface HandleOptions {
  readonly worker: number;
  readonly counts: SharedCounts;
  readonly options: WorkerPlaneOptions;
  readonly level: () => LogLevel;
  readonly snapshot: () => Snapshot | undefined;
  readonly columns: ColumnTable;
  readonly closed: () => boolean;
}

/** A request without its id. */
type Question =
  | { readonly kind: "retry" | "listeners" | "beat" }
  | { readonly kind: "view"; readonly connections: boolean }
  | { readonly kind: "drain"; readonly timeoutMs: number }
  | Omit<Extract<ToWorker, { kind: "apply" }>, "id">;

function createDataWorker(): Worker {
  // A small heap: what passes through is not kept.
  const options = { type: "module", smol: true } as WorkerOptions;
  return new Worker(new URL("./worker.ts", import.meta.url), options);
}

class WorkerHandle {
  readonly #given: HandleOptions;
  #worker: Worker | undefined;
  #ready: Promise<void> = Promise.resolve();
  #applied: Snapshot | undefined;
  #lastId = 0;
  readonly #asked = new Map<number, (value: Answer) => void>();
  #listeners: Promise<Answer> | undefined;
  #beat: Promise<Answer> | undefined;
  /** When it was asked for an answer that has not come. */
  #beatMs: number | undefined;
  #restart: Timer | undefined;
  #restartMs = RESTART_MS / 2;
  #startedMs = 0;
  #serves = false;
  #startTimeoutMs = START_TIMEOUT_MS;
  #late: Timer | undefined;

  constructor(given: HandleOptions) {
    this.#given = given;
    this.#spawn();
  }

  get isThere(): boolean {
    return this.#worker !== undefined;
  }

  async apply(snapshot: Snapshot): Promise<void> {
    await this.#ready;
    // Another call, or a replaced worker, may have sent it while we waited.
    if (this.#applied === snapshot || !this.#worker) return;
    const update = diffSnapshots(this.#applied, snapshot);
    this.#applied = snapshot;
    await this.ask({ kind: "apply", update, columns: this.#given.columns.for(snapshot) });
  }

  /** Resolves with the answer, or with undefined when the worker died. */
  ask(question: Question): Promise<Answer> {
    return new Promise((resolve) => {
      if (!this.#worker) return resolve(undefined);
      const id = ++this.#lastId;
      this.#asked.set(id, resolve);
      this.send({ ...question, id });
    });
  }

  /** One question for all who ask meanwhile: a worker that is stuck does not gather them. */
  listeners(): Promise<Answer> {
    return this.#listeners ??= this.ask({ kind: "listeners" }).finally(() => {
      this.#listeners = undefined;
    });
  }

  /** The same; one that is being started or is gone is not asked: that has time limits of its own. */
  beat(): Promise<Answer> {
    if (!this.#serves) return Promise.resolve(undefined);
    this.#beatMs ??= this.#given.options.clock.monotonic();
    return this.#beat ??= this.ask({ kind: "beat" }).finally(() => {
      this.#beat = undefined;
      this.#beatMs = undefined;
    });
  }

  get untilStuckMs(): number {
    if (this.#beatMs === undefined) return STUCK_MS;
    return this.#beatMs + STUCK_MS - this.#given.options.clock.monotonic();
  }

  send(message: ToWorker): void {
    this.#worker?.postMessage(message);
  }

  terminate(): void {
    this.#restart?.cancel();
    this.#late?.cancel();
    this.#worker?.terminate();
    this.#worker = undefined;
  }

  #spawn(): void {
    const { worker: index, counts, options, level } = this.#given;
    const { workers, maxConnections, idleTimeoutMs, lifetimeMs, logJson, logMemory } = options;
    const worker = (options.createWorker ?? createDataWorker)();
    this.#worker = worker;
    this.#startedMs = options.clock.monotonic();
    this.#applied = undefined;
    const starting = Promise.withResolvers<void>();
    this.#ready = starting.promise;
    const timeoutMs = this.#startTimeoutMs;
    this.#late = options.clock.after(timeoutMs, () => {
      // On a machine too slow for the time limit, a longer one must come.
      this.#startTimeoutMs = Math.min(timeoutMs * 2, START_TIMEOUT_MAX_MS);
      died(`it did not start within ${timeoutMs / 1000} s`);
    });
    const started = () => {
      this.#late?.cancel();
      starting.resolve();
    };
    worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
      if (data.kind === "ready") {
        // One that was given up must not be taken for its successor.
        if (this.#worker !== worker) return;
        this.#startTimeoutMs = START_TIMEOUT_MS;
        const settings: WorkerSettings = {
          worker: index,
          workers,
          maxConnections,
          idleTimeoutMs,
          lifetimeMs,
          logJson,
          logLevel: level(),
        };
        this.#serves = true;
        this.send({ kind: "start", settings, counts: counts.memory, logMemory });
        started();
      } else this.#told(data);
    };
    const died = (reason: string) => {
      if (this.#worker !== worker) return;
      this.#worker = undefined;
      this.#serves = false;
      worker.terminate();
      started();
      this.#replace(reason);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      died(event.message);
    };
    worker.addEventListener("close", () => died("it ended"));
  }

  #told(message: Exclude<FromWorker, { kind: "ready" }>): void {
    if (message.kind === "done") {
      this.#asked.get(message.id)?.(message.value);
      this.#asked.delete(message.id);
      return;
    }
    if (message.kind === "lines") return this.#given.options.onLines();
    if (message.kind === "fetch_certificate") {
      const { id, ...request } = message;
      this.#given.options.fetchCertificate(request).catch(() => false).then((available) =>
        this.send({ kind: "certificate_fetched", id, available })
      );
      return;
    }
    const { id, target, uri, serial } = message;
    this.#given.options.remoteAuthorize({ target, uri, serial }).then(
      (answer) => this.send({ kind: "authorized", id, ...answer, failed: false }),
      (error: unknown) =>
        this.send({
          kind: "authorized",
          id,
          allowed: false,
          reason: messageOf(error),
          failed: true,
        }),
    );
  }

  #replace(reason: string): void {
    const { worker, counts, options, snapshot, closed } = this.#given;
    counts.clearRow(worker);
    for (const resolve of this.#asked.values()) resolve(undefined);
    this.#asked.clear();
    if (closed()) return;
    options.log.error("data worker died; starting another", { worker, reason });
    const { clock } = options;
    const young = clock.monotonic() - this.#startedMs < YOUNG_MS;
    this.#restartMs = young ? Math.min(this.#restartMs * 2, RESTART_MAX_MS) : RESTART_MS;
    this.#restart = clock.after(this.#restartMs, () => {
      this.#spawn();
      const current = snapshot();
      if (current) this.apply(current).catch(() => {});
    });
  }
}
