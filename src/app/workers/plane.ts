/** The data plane, for the main thread: one data path here, or several in workers. @module */

import {
  type Clock,
  type Log,
  type LogLevel,
  ProxyError,
  type ReportEvent,
  type Stats,
  systemRandom,
} from "../../base/mod.ts";
import { type Engine, type ListeningSocket, socketsFor } from "../../net/mod.ts";
import type { ProxyOptions } from "../flags/proxy_options.ts";
import { LogOutbox } from "../telemetry/log_outbox.ts";
import { type SendTelemetry, spanOutbox } from "../telemetry/outbox.ts";
import type { AccessLines } from "../log/log_rings.ts";
import {
  type Columns,
  DataPath,
  type DataView,
  type Ejection,
  type ExplainQuery,
  type ExplainResult,
  type FetchCertificate,
  type ListenerView,
  type OpenTap,
  type PublishEffect,
  type RemoteAuthorize,
  SharedCounts,
  type TapFilter,
  type ViewOptions,
} from "../../proxy/mod.ts";
import { diffSnapshots, type Snapshot } from "../../snapshot/mod.ts";
import { WorkerConditions } from "../../events/mod.ts";
import { FailureContainer } from "./contain_failures.ts";
import { type ProgramStart, spawnProcess } from "./spawn_process.ts";
import { Rollout, type RolloutMember } from "./rollout.ts";

export interface DataPlane {
  /** Takes snapshots, and has the one in force. */
  readonly rollout: Pick<Rollout, "apply" | "takeEffects" | "published" | "refused">;
  /** Tries listeners again that could not be bound. True: all are. */
  retryFailed(): Promise<boolean>;
  /** Listeners of every data path that answers in time; empty for a path that is gone. */
  listeners(): Promise<readonly (readonly ListenerView[])[]>;
  views(options: ViewOptions): Promise<readonly DataView[]>;
  /** Upstreams in use since the last call, for every data path that answers in time. */
  used(): Promise<readonly (readonly string[])[]>;
  /** Explanations by every data path that answers in time and has a snapshot. */
  explain(question: ExplainQuery): Promise<readonly ExplainResult[]>;
  /** Lines of a new tap go to `take`, until the returned function is called. Throws beyond {@link TAP_LIMIT}. */
  tap(filter: TapFilter, take: TakeTapLines): () => void;
  /** Descriptions of the data paths that do not answer within two seconds. */
  stuck(): Promise<readonly string[]>;
  setLogLevel(level: LogLevel): void;
  /** Asks callers of the inbound listeners to leave, new ones as well; other connections are not affected. */
  drainInbound(): void;
  /** Starts a program with the priority of traffic; returns its process id. */
  spawn(start: ProgramStart): Promise<number>;
  /** Accepts connections, where the start with inherited sockets has held them. */
  accept(): Promise<void>;
  /** Goes on with ejections of the process before. */
  resume(ejections: readonly Ejection[]): Promise<void>;
  /** Copies of all listening sockets, for another process; the caller closes them. */
  sockets(): Promise<readonly ListeningSocket[]>;
  /**
   * Stops accepting; resolves when all connections have ended, at the latest after `timeoutMs`.
   * `handedOver`: another process goes on accepting.
   */
  drain(timeoutMs: number, options?: { readonly handedOver: boolean }): Promise<void>;
  close(): void;
}

/** As {@link TakeTapped}, of one tap. */
export type TakeTapLines = (lines: string, dropped: number) => void;

/** Taps at once: each costs every request a little. */
const TAP_LIMIT = 4;

/** The open taps, and who takes their lines. */
export class OpenTaps {
  readonly #change: (open: readonly OpenTap[]) => void;
  readonly #taps = new Map<number, { readonly open: OpenTap; readonly take: TakeTapLines }>();
  #lastId = 0;

  constructor(change: (open: readonly OpenTap[]) => void) {
    this.#change = change;
  }

  get open(): readonly OpenTap[] {
    return [...this.#taps.values()].map(({ open }) => open);
  }

  add(filter: TapFilter, take: TakeTapLines): () => void {
    if (this.#taps.size >= TAP_LIMIT) {
      throw new ProxyError(
        "overloaded",
        `Cannot open another tap: ${TAP_LIMIT} are open; close one of them`,
      );
    }
    const id = ++this.#lastId;
    this.#taps.set(id, { open: { id, filter }, take });
    this.#change(this.open);
    return () => {
      if (this.#taps.delete(id)) this.#change(this.open);
    };
  }

  take(id: number, lines: string, dropped: number): void {
    this.#taps.get(id)?.take(lines, dropped);
  }
}

type Settings = "maxConnections" | "idleTimeoutMs" | "lifetimeMs";

export interface PlaneOptions extends Pick<ProxyOptions, Settings> {
  readonly clock: Clock;
  readonly log: Log;
  readonly stats: Stats;
  readonly report?: ReportEvent;
  readonly remoteAuthorize: RemoteAuthorize;
  /** Resolves when a snapshot with the certificate has been handed to {@link Rollout.apply}. */
  readonly fetchCertificate: FetchCertificate;
  /** Takes the finished spans and access records of data paths. */
  readonly sendTelemetry: SendTelemetry;
  /** Called at once when an idle upstream is used. */
  readonly onFirstUse?: (upstreamId: string) => void;
  /** From the process before, which accepts until {@link DataPlane.accept}. The plane takes them. */
  readonly inherited?: readonly ListeningSocket[] | undefined;
  /** Sockets that systemd keeps open: each listener with such an address takes a copy. */
  readonly kept?: readonly ListeningSocket[];
}

/** `-workers 0`: the data path in the main thread. */
export function createLocalPlane(
  engine: Engine,
  options: PlaneOptions & { readonly accessLines?: AccessLines },
): DataPlane {
  const { accessLines } = options;
  const counts = SharedCounts.create(1);
  const spans = spanOutbox(options.clock, options.sendTelemetry);
  const logs = new LogOutbox(options.clock, options.sendTelemetry);
  const conditions = options.report &&
    new WorkerConditions({ ...options, report: options.report, workers: 1 });
  const path = new DataPath({
    ...options,
    ...(conditions && {
      takeConditions: (changes) => Promise.resolve(conditions.take(0, changes)),
    }),
    takeSpan: spans.take,
    takeAccessRecord: logs.takeAccess,
    takeTapped: (id, lines, dropped) => Promise.resolve(taps.take(id, lines, dropped)),
    engine,
    random: systemRandom,
    worker: 0,
    workers: 1,
    counts,
    inherited: socketsFor(options.inherited, options.kept),
    ...(accessLines && { takeLine: accessLines.take }),
  });
  const member = new LocalMember(path, logs, options);
  const taps = new OpenTaps((open) => path.setTaps(open));
  return {
    rollout: new Rollout({ ...options, counts, members: [member] }),
    retryFailed: () => path.retryFailed(),
    listeners: () => Promise.resolve([path.listeners()]),
    views: (wanted) => Promise.resolve([path.view(wanted)]),
    used: () => Promise.resolve([path.used()]),
    async explain(question) {
      const explained = await path.explain(question);
      return explained ? [explained] : [];
    },
    tap: (filter, take) => taps.add(filter, take),
    // The caller is in the same thread.
    stuck: () => Promise.resolve([]),
    setLogLevel: () => {},
    drainInbound: () => path.drainInbound(),
    spawn: spawnProcess,
    accept: () => Promise.resolve(path.accept()),
    resume: (ejections) => Promise.resolve(path.resume(ejections)),
    sockets: () => Promise.resolve(path.sockets()),
    async drain(timeoutMs, how) {
      await path.drain(timeoutMs, how);
      accessLines?.flush();
      spans.flush();
      logs.flush();
    },
    close: () => path.close(),
  };
}

class LocalMember implements RolloutMember {
  published: Snapshot | undefined;
  readonly #path: DataPath;
  readonly #logs: LogOutbox;
  readonly #log: Log;
  readonly #container: FailureContainer;

  constructor(path: DataPath, logs: LogOutbox, { log, clock }: PlaneOptions) {
    this.#path = path;
    this.#logs = logs;
    this.#log = log;
    const nowMs = () => clock.monotonic();
    this.#container = new FailureContainer({ log, stats: path.stats, nowMs });
  }

  async prepare(snapshot: Snapshot): Promise<boolean> {
    const update = diffSnapshots(this.published, snapshot);
    this.#container.expect(update);
    await this.#path.prepare(update);
    return true;
  }

  publish(snapshot: Snapshot, columns: Columns): Promise<readonly PublishEffect[]> {
    this.published = snapshot;
    this.#logs.set(snapshot.telemetry);
    return this.#path.publish(columns);
  }

  abandon(): void {
    this.#path.abandon();
  }

  giveUp(reason: string): void {
    this.#log.error("snapshot not applied", { reason });
  }
}
