/**
 * Calls between the main thread and data workers. Snapshots cross as updates: only the parts that changed.
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
import type { ProxyOptions } from "../flags/proxy_options.ts";
import type { SnapshotUpdate } from "../../snapshot/mod.ts";

type Settings = Pick<
  ProxyOptions,
  "workers" | "maxConnections" | "idleTimeoutMs" | "lifetimeMs" | "logJson" | "logLevel"
>;

export interface WorkerStart {
  /** Never change while a worker lives. */
  readonly settings: Settings & { readonly worker: number };
  /** The main thread's monotonic time, which becomes the worker's. */
  readonly nowMs: number;
  readonly counts: SharedArrayBuffer;
  /** Rings for log lines. */
  readonly logMemory: SharedArrayBuffer;
  /** Rings for lines of the access log. */
  readonly accessMemory: SharedArrayBuffer;
}

/** Calls of a worker. `start` comes first; `start`, `abandon` and `logLevel` have no result. */
export interface WorkerCalls {
  start(given: WorkerStart): void;
  /** As in `DataPath`; an error is the refusal. */
  prepare(update: SnapshotUpdate): Promise<void>;
  publish(columns: Columns): Promise<void>;
  abandon(): void;
  retryFailed(): Promise<boolean>;
  listeners(): readonly ListenerView[];
  view(options: ViewOptions): DataView;
  used(): readonly string[];
  explain(question: ExplainQuery): Promise<ExplainResult | undefined>;
  beat(): void;
  drainInbound(): void;
  drain(timeoutMs: number): Promise<void>;
  logLevel(level: LogLevel): void;
}

/** Calls of the main thread. `ready` comes first; `ready`, `lines` and `firstUse` have no result. */
export interface MainCalls {
  ready(): void;
  /** Lines of a log wait in the worker's ring. */
  lines(): void;
  /** An idle upstream is used. */
  firstUse(upstreamId: string): void;
  authorize: RemoteAuthorize;
  fetchCertificate: FetchCertificate;
  lendCells: OpenSharedCells;
}
