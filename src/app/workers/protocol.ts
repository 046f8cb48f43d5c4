/**
 * What main thread and data workers ask and tell each other. Snapshots cross as updates: only the parts
 * that changed.
 *
 * @module
 */

import type { LogLevel } from "../../base/mod.ts";
import type { OpenSharedCells } from "../../plugin/mod.ts";
import type {
  Columns,
  DataView,
  ExplainQuery,
  ExplainResult,
  FetchCertificate,
  ListenerView,
  RemoteAuthorize,
  ViewOptions,
} from "../../proxy/mod.ts";
import type { SnapshotUpdate } from "../../snapshot/mod.ts";

/** Settings that never change while a worker lives. */
interface WorkerSettings {
  readonly worker: number;
  readonly workers: number;
  readonly maxConnections: number;
  readonly idleTimeoutMs: number;
  readonly lifetimeMs: number;
  readonly logJson: boolean;
  readonly logLevel: LogLevel;
}

export interface WorkerStart {
  readonly settings: WorkerSettings;
  /** The main thread's monotonic time, which becomes the worker's. */
  readonly nowMs: number;
  readonly counts: SharedArrayBuffer;
  /** Where its log lines go. */
  readonly logMemory: SharedArrayBuffer;
  /** Where those of its access log go. */
  readonly accessMemory: SharedArrayBuffer;
}

/** What a worker is asked, and told: `start`, first of all, `abandon` and `logLevel`. */
export interface WorkerCalls {
  start(given: WorkerStart): void;
  /** As in `DataPath`; what it throws is the refusal. */
  prepare(update: SnapshotUpdate): Promise<void>;
  publish(columns: Columns): Promise<void>;
  abandon(): void;
  retryFailed(): Promise<boolean>;
  listeners(): readonly ListenerView[];
  view(options: ViewOptions): DataView;
  used(): readonly string[];
  explain(question: ExplainQuery): Promise<ExplainResult | undefined>;
  /** Does it answer? */
  beat(): void;
  drainInbound(): void;
  drain(timeoutMs: number): Promise<void>;
  logLevel(level: LogLevel): void;
}

/** What the main thread is asked, and told: `ready`, first of all, `lines` and `firstUse`. */
export interface MainCalls {
  ready(): void;
  /** Lines of a log wait in the worker's ring. */
  lines(): void;
  /** Of an upstream that was idle. */
  firstUse(upstreamId: string): void;
  authorize: RemoteAuthorize;
  fetchCertificate: FetchCertificate;
  lendCells: OpenSharedCells;
}
