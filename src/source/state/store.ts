/**
 * The last good snapshot on disk (`-state-dir`), so that a restart with the agent away still serves.
 * The file holds private keys, and passwords and tokens where the registration does: it belongs to this
 * user alone, or it is neither written nor read. A failure of the disk is logged and counted; it never
 * stops the proxy.
 *
 * @module
 */

import { createHash } from "node:crypto";
import { join } from "node:path";
import { type Clock, type Log, messageOf, type Stats } from "../../base/mod.ts";
import { judgePems } from "../parts/judge_credentials.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import { LatestWriter } from "./latest_writer.ts";
import { createStateFiles, type StateFiles } from "./state_files.ts";
import type { StoredState } from "./stored_credentials.ts";

export interface SnapshotStore {
  /** The stored state of this proxy, if there is one that may be served. Never rejects. */
  load(proxyId: string): Promise<StoredState | undefined>;
  /** Where it is on the disk; absent: nowhere. */
  fileOf?(proxyId: string): string;
  /** Soon, and only the newest. Never throws. */
  save(state: StoredState): void;
  /** Writes what is still waiting. Never rejects. */
  close(): Promise<void>;
}

export interface FileStoreOptions {
  readonly directory: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly stats: Stats;
  readonly strictSpiffeChain?: boolean;
  /** False: the state belongs to a configuration file, and only its secrets are restored. */
  readonly holdsMesh?: boolean;
  /** For tests; default the file system. */
  readonly files?: StateFiles;
}

/** Between two writes. */
const WRITE_INTERVAL_MS = 1_000;

export class FileStore implements SnapshotStore {
  readonly #options: FileStoreOptions;
  readonly #files: StateFiles;
  /** Files that were reported as unusable. */
  readonly #useless = new Set<string>();
  readonly #writer: LatestWriter<StoredState>;
  #failure: string | undefined;

  constructor(options: FileStoreOptions) {
    this.#options = options;
    this.#files = options.files ?? createStateFiles();
    this.#writer = new LatestWriter({
      clock: options.clock,
      intervalMs: WRITE_INTERVAL_MS,
      write: (state) => this.#write(state),
    });
  }

  fileOf(proxyId: string): string {
    return join(this.#options.directory, `${stateFileName(proxyId)}.json`);
  }

  async load(proxyId: string): Promise<StoredState | undefined> {
    const { directory, log, holdsMesh = true } = this.#options;
    const file = this.fileOf(proxyId);
    try {
      const text = await this.#files.read(directory, file);
      if (text === undefined) return undefined;
      const stored = parseStored(text);
      if (stored.kind === "invalid") throw new Error(stored.reason);
      const { state, state: { snapshot } } = stored;
      if (snapshot.proxyId !== proxyId) {
        throw new Error(`it is of proxy "${snapshot.proxyId}", not "${proxyId}"`);
      }
      if (holdsMesh) this.#judgeMesh(snapshot);
      return state;
    } catch (error) {
      const isReported = this.#useless.has(file);
      this.#useless.add(file);
      log[isReported ? "debug" : "warn"]("stored snapshot not used", {
        file,
        error: messageOf(error),
      });
      return undefined;
    }
  }

  #judgeMesh({ service, credentials }: Snapshot): void {
    const { clock, strictSpiffeChain = false } = this.#options;
    if (!credentials) throw new Error("it has no credentials of the mesh");
    const nowMs = clock.now();
    const verdict = judgePems({ ...credentials, service, nowMs, strictSpiffeChain });
    if (verdict.kind === "invalid") throw new Error(verdict.reason);
  }

  save(state: StoredState): void {
    this.#writer.save(state);
  }

  close(): Promise<void> {
    return this.#writer.close();
  }

  /** Whether it is on the disk now. */
  async #write(state: StoredState): Promise<boolean> {
    const { directory, clock, log, stats } = this.#options;
    const file = this.fileOf(state.snapshot.proxyId);
    try {
      await this.#files.write(directory, file, formatStored(state));
    } catch (error) {
      const failure = messageOf(error);
      stats.counter(
        "snapshot_store_failures_total",
        "Times that the configuration could not be written to -state-dir",
      ).add(1);
      if (this.#failure !== failure) log.warn("snapshot not stored", { file, error: failure });
      this.#failure = failure;
      return false;
    }
    if (this.#failure !== undefined) log.info("snapshot stored again", { file });
    this.#failure = undefined;
    stats.gauge(
      "snapshot_stored_seconds",
      "When the configuration was last written to -state-dir, in seconds since 1970",
    )
      .set(Math.floor(clock.now() / 1000));
    return true;
  }
}

/** A safe name for every id, in which people recognise the proxy; `of` differs for each proxy. */
export function stateFileName(proxyId: string, of = proxyId): string {
  const digest = digestOf(of).slice(0, 12);
  return `${proxyId.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 100)}-${digest}`;
}

/**
 * Means that content with a right digest has the types of this version: rises with every change of
 * {@link Snapshot} or {@link StoredCredentials}, which the test of the format checks. The digest is no
 * signature: owner and mode keep others from writing the file, and the credentials are judged again on every
 * start.
 */
const FORMAT = 14;

type ParsedStored =
  | { readonly kind: "valid"; readonly state: StoredState }
  | { readonly kind: "invalid"; readonly reason: string };

export function formatStored(state: StoredState): string {
  const content = JSON.stringify(state);
  return `{"schema":${FORMAT},"sha256":"${digestOf(content)}","state":${content}}\n`;
}

/** Every format begins with its number. */
const HEAD = /^\{"schema":(\d{1,9})[,}]/;
const BEGIN = /^\{"schema":\d+,"sha256":"([0-9a-f]{64})","state":/;
const END = "}\n";

/** Never throws. The reason quotes nothing of the text, which holds keys. */
export function parseStored(text: string): ParsedStored {
  const [, format = "unknown"] = HEAD.exec(text) ?? [];
  if (format !== String(FORMAT)) {
    return {
      kind: "invalid",
      reason: `another version wrote it: its format is ${format}, and this one reads ${FORMAT}`,
    };
  }
  const [begin = "", digest] = BEGIN.exec(text) ?? [];
  const content = text.slice(begin.length, -END.length);
  if (digest === undefined || !text.endsWith(END) || digestOf(content) !== digest) {
    return { kind: "invalid", reason: "its digest is wrong: it is cut short or was changed" };
  }
  return { kind: "valid", state: JSON.parse(content) as StoredState };
}

function digestOf(content: string): string {
  return createHash("sha256").update(content).digest("hex");
}
