/**
 * The data plane as the main thread sees it: one data path in this thread, or several in workers. Both
 * take whole snapshots.
 *
 * @module
 */

import type { Clock, Log, LogLevel } from "../base/mod.ts";
import type { Engine } from "../net/mod.ts";
import {
  DataPath,
  type DataView,
  type FetchCertificate,
  type ListenerView,
  type RemoteAuthorize,
  SharedCounts,
} from "../proxy/mod.ts";
import { systemRandom } from "../base/mod.ts";
import { diffSnapshots, type Snapshot } from "../snapshot/mod.ts";
import { ColumnTable } from "./columns.ts";

export interface DataPlane {
  /** Resolves when every worker has taken it and its listeners are bound or have failed. */
  apply(snapshot: Snapshot): Promise<void>;
  /** Tries listeners again that could not be bound. True: all are. */
  retryFailed(): Promise<boolean>;
  /** Of every data path that answered in time; of one that is not there: none. */
  listeners(): Promise<readonly (readonly ListenerView[])[]>;
  views(options: { readonly connections: boolean }): Promise<readonly DataView[]>;
  /** Asks every data path for an answer; those that are stuck, in words, after two seconds. */
  stuck(): Promise<readonly string[]>;
  setLogLevel(level: LogLevel): void;
  /** Stops accepting; resolves when all connections have ended, at the latest after `timeoutMs`. */
  drain(timeoutMs: number): Promise<void>;
  close(): void;
}

export interface PlaneOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly maxConnections: number;
  readonly idleTimeoutMs: number;
  readonly lifetimeMs: number;
  readonly remoteAuthorize: RemoteAuthorize;
  /** Resolves when a snapshot with the certificate has been handed to {@link DataPlane.apply}. */
  readonly fetchCertificate: FetchCertificate;
}

/** `-workers 0`: the data path in the main thread. */
export function createLocalPlane(engine: Engine, options: PlaneOptions): DataPlane {
  const counts = SharedCounts.create(1);
  const path = new DataPath({
    ...options,
    engine,
    random: systemRandom,
    worker: 0,
    workers: 1,
    counts,
  });
  const columns = new ColumnTable(counts);
  let applied: Snapshot | undefined;
  return {
    async apply(snapshot) {
      const update = diffSnapshots(applied, snapshot);
      applied = snapshot;
      await path.apply(update, columns.for(snapshot));
      columns.settled(snapshot);
    },
    retryFailed: () => path.retryFailed(),
    listeners: () => Promise.resolve([path.listeners()]),
    views: (wanted) => Promise.resolve([path.view(wanted)]),
    // Who reads this is in the same thread.
    stuck: () => Promise.resolve([]),
    setLogLevel: () => {},
    drain: (timeoutMs) => path.drain(timeoutMs),
    close: () => path.close(),
  };
}
