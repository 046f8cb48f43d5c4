/**
 * The last good snapshot on disk, so that a restart with the agent away still serves.
 *
 * @module
 */

import type { Snapshot } from "./snapshot.ts";

export interface SnapshotStore {
  /** The stored snapshot of this proxy, if there is one that may be served. Never rejects for bad content. */
  load(proxyId: string): Promise<Snapshot | undefined>;
  /** Soon, and only the newest; failures are logged and counted, never thrown. */
  save(snapshot: Snapshot): void;
  /** Writes what is still waiting. */
  close(): Promise<void>;
}
