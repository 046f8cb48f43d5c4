/**
 * What main thread and data workers tell each other. Snapshots cross as updates: only the parts that
 * changed.
 *
 * @module
 */

import type { LogLevel } from "../base/mod.ts";
import type { Columns, DataView, ListenerView } from "../proxy/mod.ts";
import type { SnapshotUpdate } from "../snapshot/mod.ts";

/** Settings that never change while a worker lives. */
export interface WorkerSettings {
  readonly worker: number;
  readonly workers: number;
  readonly maxConnections: number;
  readonly idleTimeoutMs: number;
  readonly lifetimeMs: number;
  readonly logJson: boolean;
  readonly logLevel: LogLevel;
}

export type ToWorker =
  | {
    readonly kind: "start";
    readonly settings: WorkerSettings;
    readonly counts: SharedArrayBuffer;
    /** Where its log lines go. */
    readonly logMemory: SharedArrayBuffer;
  }
  | {
    readonly kind: "apply";
    readonly id: number;
    readonly update: SnapshotUpdate;
    readonly columns: Columns;
  }
  | { readonly kind: "retry"; readonly id: number }
  | { readonly kind: "listeners"; readonly id: number }
  /** Does it answer? */
  | { readonly kind: "beat"; readonly id: number }
  | { readonly kind: "view"; readonly id: number; readonly connections: boolean }
  | { readonly kind: "drain"; readonly id: number; readonly timeoutMs: number }
  | { readonly kind: "log_level"; readonly level: LogLevel }
  | {
    readonly kind: "authorized";
    readonly id: number;
    readonly allowed: boolean;
    readonly reason: string;
    /** The question could not be answered. */
    readonly failed: boolean;
  }
  /** Comes after the update that brings the certificate. */
  | { readonly kind: "certificate_fetched"; readonly id: number; readonly available: boolean };

export type FromWorker =
  | { readonly kind: "ready" }
  /** Log lines wait in its ring. */
  | { readonly kind: "lines" }
  | {
    readonly kind: "done";
    readonly id: number;
    readonly value?: DataView | readonly ListenerView[] | boolean;
  }
  | {
    readonly kind: "authorize";
    readonly id: number;
    readonly target: string;
    readonly uri: string;
    readonly serial: string;
  }
  | {
    readonly kind: "fetch_certificate";
    readonly id: number;
    readonly credentials: string;
    readonly name: string;
    readonly remote: string;
  };
