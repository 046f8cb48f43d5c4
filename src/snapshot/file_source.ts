/**
 * Snapshots from a file, without Consul. Files are read at the start and when `reload()` asks; what is
 * wrong then is refused as a whole and the last good state stays.
 *
 * @module
 */

import { type Clock, type Log, messageOf, ProxyError, type Stats } from "../base/mod.ts";
import { type FileSnapshotOptions, readFileSnapshot } from "./file_snapshot.ts";
import { sameContent } from "./parts.ts";
import type { Refusal, Snapshot } from "./snapshot.ts";
import type { SnapshotSource, SourceStatus } from "./source.ts";
import { certificateStatusOf, SourceReport } from "./source_report.ts";

export interface FileSourceOptions {
  readonly file: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly stats: Stats;
  readonly strictSpiffeChain?: boolean;
  /** Upstream connections without a byte; default 1 h. 0: never. */
  readonly idleTimeoutMs?: number;
  /** Upstream connections at all; default 0: for ever. */
  readonly lifetimeMs?: number;
}

export class FileSource implements SnapshotSource {
  readonly #options: FileSourceOptions;
  readonly #report: SourceReport;
  #onSnapshot: ((snapshot: Snapshot) => void) | undefined;
  #snapshot: Snapshot | undefined;
  #refused: readonly Refusal[] = [];
  #reading: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(options: FileSourceOptions) {
    this.#options = options;
    this.#report = new SourceReport(options);
  }

  get refused(): readonly Refusal[] {
    return this.#refused;
  }

  start(onSnapshot: (snapshot: Snapshot) => void, onFatal?: (error: ProxyError) => void): void {
    this.#onSnapshot = onSnapshot;
    this.#enqueue((error) => onFatal?.(error));
  }

  reload(): Promise<void> {
    return this.#enqueue((error) => {
      this.#refused = [{ what: "configuration file", reason: error.message }];
      this.#report.refused(this.#refused);
    });
  }

  used(): void {}

  status(): SourceStatus {
    return {
      kind: "file",
      waitingFor: this.#snapshot ? [] : ["configuration file"],
      pending: [],
      failing: [],
      watches: [],
      restored: false,
      snapshotVersion: this.#snapshot?.version,
      certificate: this.#snapshot && certificateStatusOf(this.#snapshot.credentials),
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#reading;
  }

  /** One after the other: two reloads at once must not publish in the wrong order. */
  #enqueue(onError: (error: ProxyError) => void): Promise<void> {
    this.#reading = this.#reading.then(async () => {
      try {
        if (!this.#closed) await this.#read();
      } catch (error) {
        onError(
          error instanceof ProxyError
            ? error
            : new ProxyError("internal", messageOf(error), { cause: error }),
        );
      }
    });
    return this.#reading;
  }

  async #read(): Promise<void> {
    const { file } = this.#options;
    const snapshot = await readFileSnapshot(file, this.#snapshotOptions());
    if (this.#closed) return;
    this.#refused = [];
    this.#report.refused([]);
    const { version: _, ...content } = snapshot;
    const { version: __, ...old } = this.#snapshot ?? { version: 0 };
    if (sameContent(old, content)) return;
    const first = !this.#snapshot;
    this.#snapshot = snapshot;
    this.#report.published(snapshot, { first, restored: false });
    this.#onSnapshot?.(snapshot);
  }

  #snapshotOptions(): FileSnapshotOptions {
    const { clock, strictSpiffeChain, idleTimeoutMs, lifetimeMs } = this.#options;
    return {
      nowMs: clock.now(),
      strictSpiffeChain: strictSpiffeChain ?? false,
      idleTimeoutMs: idleTimeoutMs ?? 3_600_000,
      lifetimeMs: lifetimeMs ?? 0,
      ...(this.#snapshot && { previous: this.#snapshot }),
    };
  }
}
