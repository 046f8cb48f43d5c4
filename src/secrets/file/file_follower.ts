/** Follows one set of files: a hint leads to a reading of the whole set, a check, and then a value. @module */

import {
  Backoff,
  type Clock,
  type Log,
  ProxyError,
  type Random,
  type Timer,
} from "../../base/mod.ts";
import type { ReadSource, SecretFile } from "../load/mod.ts";
import type { FileEvents, SecretWatch } from "../model/plan.ts";
import { type DirectoryWatches, placesOf, type WatchedName } from "./watches.ts";
import { type FileSet, type FileSystem, readStable } from "./file_system.ts";

export interface FollowTarget<T> {
  /** Read together. */
  readonly files: readonly SecretFile[];
  /** Watched in place of the files' own directories. */
  readonly directory?: string;
  /** False: read until it is good once, then never again. */
  readonly watch: boolean;
  /** Decodes and checks; `read` returns only files of one set. Throws a ProxyError. */
  load(read: ReadSource): Promise<T>;
}

export interface FollowEvents<T> extends Pick<FileEvents, "onRejected" | "onRecovered"> {
  onValue(value: T): void;
}

export interface FollowerContext {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly files: FileSystem;
  readonly watches: DirectoryWatches;
  readonly noteMode: (file: SecretFile, mode: number) => void;
  readonly bounded: <T>(task: () => Promise<T>) => Promise<T>;
}

/** After a hint: files that belong together are often written together. */
const DEBOUNCE_MS = 50;
/** After a hint about another name in the directory, such as a link whose new name is not reported. */
const GLANCE_MS = 500;
const RETRY_BASE_MS = 100;
const RETRY_MAX_MS = 5_000;
/** How long a bad set is not reported: keys and certificates are often written seconds apart. */
const GRACE_MS = 1_000;
/** File times are as coarse as two seconds, and the clocks of file servers differ. */
const COARSE_MS = 120_000;
/** A refused content is checked again after this: a certificate becomes valid. */
const REJUDGE_MS = 10_000;
/** Polls that only compare the files' stamps before one that reads them. */
const STAMP_POLLS = 30;

export class FileFollower<T> implements SecretWatch {
  readonly #target: FollowTarget<T>;
  readonly #context: FollowerContext;
  readonly #events: FollowEvents<T>;
  readonly #backoff: Backoff;
  readonly #onHint = (exact: boolean) => this.#plan(exact ? DEBOUNCE_MS : GLANCE_MS, exact);
  /** The next look. `full`: it reads the files whatever their stamps are. */
  #next: { readonly dueMs: number; readonly full: boolean; readonly timer: Timer } | null = null;
  #running: Promise<void> | null = null;
  #closed = false;
  #acceptedHash: string | null = null;
  #refused: { readonly hash: string; readonly reason: string; readonly atMs: number } | null = null;
  #stamps = "";
  #changedMs: number;
  #stampPolls = 0;
  #badSinceMs: number | null = null;
  #isReported = false;
  /** Pending refreshes: their look has not begun, or found a set that may still be incomplete. */
  readonly #refreshes: (() => void)[] = [];

  constructor(target: FollowTarget<T>, context: FollowerContext, events: FollowEvents<T>) {
    this.#target = target;
    this.#context = context;
    this.#events = events;
    const { clock, random } = context;
    this.#changedMs = clock.monotonic();
    this.#backoff = new Backoff({ baseMs: RETRY_BASE_MS, maxMs: RETRY_MAX_MS, random });
    this.#plan(0, true);
  }

  /** Looks at once; resolves when the current state of the files is reported, good or bad. */
  refresh(): Promise<void> {
    if (this.#closed) return Promise.resolve();
    this.#plan(0, true);
    return new Promise((resolve) => this.#refreshes.push(resolve));
  }

  /** Reads files whose stamps differ or are too coarse, and every file now and then. */
  async poll(): Promise<void> {
    if (this.#closed || !this.#target.watch || this.#running) return;
    const isRecent = this.#context.clock.monotonic() - this.#changedMs < COARSE_MS;
    const full = isRecent || ++this.#stampPolls >= STAMP_POLLS;
    if (full) this.#stampPolls = 0;
    await this.#run(full);
  }

  /** No event comes after this. */
  close(): void {
    this.#closed = true;
    this.#next?.timer.cancel();
    this.#next = null;
    this.#context.watches.remove(this.#onHint);
    this.#resolve(this.#refreshes.splice(0));
  }

  async settled(): Promise<void> {
    await this.#running;
  }

  #plan(delayMs: number, full: boolean): void {
    if (this.#closed) return;
    const { clock } = this.#context;
    const dueMs = clock.monotonic() + delayMs;
    const next = this.#next;
    // The first hint sets the time: later ones would postpone the look for ever.
    if (next && next.dueMs <= dueMs && (next.full || !full)) return;
    next?.timer.cancel();
    const timer = clock.after(delayMs, () => {
      this.#next = null;
      if (this.#running) this.#plan(DEBOUNCE_MS, full);
      else void this.#run(full);
    });
    this.#next = { dueMs, full, timer };
  }

  #run(full: boolean): Promise<void> {
    if (this.#running) return this.#running;
    const refreshes = full ? this.#refreshes.splice(0) : [];
    return this.#running = this.#look(full)
      .catch((error) => {
        const { log } = this.#context;
        log.error("following files failed", { error: error instanceof Error ? error.name : "" });
        this.#fail("Cannot use credentials: an unexpected failure inside");
      })
      .finally(() => {
        this.#running = null;
        this.#resolve(refreshes);
      });
  }

  #resolve(refreshes: readonly (() => void)[]): void {
    const mayBeIncomplete = this.#badSinceMs !== null && !this.#isReported;
    if (mayBeIncomplete && !this.#closed) this.#refreshes.push(...refreshes);
    else for (const resolve of refreshes) resolve();
  }

  async #look(full: boolean): Promise<void> {
    if (!full && this.#badSinceMs === null && await this.#stampsNow() === this.#stamps) return;
    // Watches are made before the files are read, so that no later change is missed.
    await this.#watchPlaces();
    const { clock, bounded, noteMode } = this.#context;
    const { files } = this.#target;
    let hash: string | undefined;
    let value: T;
    try {
      const set = await readStable(files, {
        ...this.#context,
        isKnown: (hash) => hash === this.#acceptedHash || hash === this.#refused?.hash,
      });
      hash = set.hash;
      if (set.stamps !== this.#stamps) {
        this.#stamps = set.stamps;
        this.#changedMs = clock.monotonic();
      }
      if (hash === this.#acceptedHash) return this.#recover();
      const refused = this.#refused;
      if (hash === refused?.hash && clock.monotonic() - refused.atMs < REJUDGE_MS) {
        return this.#fail(refused.reason);
      }
      value = await bounded(() => this.#target.load(readFrom(set)));
      for (const file of files) noteMode(file, set.readings.get(file.path)?.mode ?? 0);
    } catch (error) {
      if (!(error instanceof ProxyError)) throw error;
      const reason = error.message;
      if (hash !== undefined) this.#refused = { hash, reason, atMs: clock.monotonic() };
      return this.#fail(reason);
    }
    this.#acceptedHash = hash;
    this.#refused = null;
    if (this.#closed) return;
    this.#recover();
    this.#events.onValue(value);
    if (!this.#target.watch) this.close();
  }

  async #stampsNow(): Promise<string> {
    const { files, bounded } = this.#context;
    const stamps = await bounded(async () => {
      const found: string[] = [];
      for (const { path } of this.#target.files) found.push(await files.stamp(path));
      return found;
    });
    return stamps.join(" ");
  }

  async #watchPlaces(): Promise<void> {
    const { files, watches, bounded } = this.#context;
    const target = this.#target;
    if (!target.watch || this.#closed) return;
    // The links on the path of a watched directory are followed, too, because it may be replaced.
    const paths = target.directory === undefined
      ? target.files.map(({ path }) => path)
      : [target.directory];
    const places = await bounded(async () => {
      const known = new Map();
      const found: WatchedName[] = [];
      for (const path of paths) found.push(...await placesOf(path, files, known));
      return found;
    });
    if (this.#closed) return;
    const isNew = await watches.set(this.#onHint, places, target.directory);
    if (this.#closed) return watches.remove(this.#onHint);
    // Deno's watches begin some milliseconds after they are made; this look finds missed changes.
    if (isNew) this.#plan(GLANCE_MS, false);
  }

  #recover(): void {
    if (this.#closed || this.#badSinceMs === null) return;
    this.#badSinceMs = null;
    this.#isReported = false;
    this.#backoff.reset();
    this.#events.onRecovered();
  }

  #fail(reason: string): void {
    if (this.#closed) return;
    const nowMs = this.#context.clock.monotonic();
    this.#badSinceMs ??= nowMs;
    const graceMs = this.#badSinceMs + GRACE_MS - nowMs;
    const retryMs = this.#backoff.next();
    this.#plan(graceMs > 0 ? Math.min(retryMs, graceMs) : retryMs, true);
    this.#isReported = graceMs <= 0;
    if (this.#isReported) this.#events.onRejected(reason);
  }
}

/** Reads from one set only: a file that is read later could belong to another one. */
function readFrom(set: FileSet): ReadSource {
  return (path) => {
    const reading = set.readings.get(path);
    if (reading) return Promise.resolve(reading.bytes);
    const message = `Cannot read ${path}: it is not one of the files that are followed`;
    return Promise.reject(new ProxyError("credentials_invalid", message));
  };
}
