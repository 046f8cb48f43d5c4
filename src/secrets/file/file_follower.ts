/**
 * Follows one set of files: every hint leads to a whole reading, a check, and only then to a value. What
 * cannot be used is tried again by itself, and is told only after it stayed bad for a while, because keys
 * and certificates are often written seconds apart.
 *
 * @module
 */

import {
  Backoff,
  type Clock,
  type Log,
  ProxyError,
  type Random,
  type Timer,
} from "../../base/mod.ts";
import type { ReadSource, SecretFile } from "../load/mod.ts";
import type { SecretWatch } from "../secret_provider.ts";
import type { FileSystem } from "./file_system.ts";
import type { PermissionNotes } from "./permissions.ts";
import { placesOf, type WatchedNames } from "./file_places.ts";
import { type FileSet, readStable } from "./stable_read.ts";
import type { DirectoryWatches } from "./watches.ts";

export interface FollowTarget<T> {
  /** Read together. */
  readonly files: readonly SecretFile[];
  /** Watched in place of the files' own directories. */
  readonly directory?: string;
  /** False: read until it is good once, then never again. */
  readonly watch: boolean;
  /** Decodes and checks; `read` gives what was read, and nothing else. Throws a ProxyError. */
  load(read: ReadSource): Promise<T>;
}

/** As of {@link FileEvents}. */
export interface FollowEvents<T> {
  onValue(value: T): void;
  onRejected(reason: string): void;
  onRecovered(): void;
}

export interface FollowerContext {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly files: FileSystem;
  readonly watches: DirectoryWatches;
  readonly permissions: PermissionNotes;
  readonly bounded: <T>(task: () => Promise<T>) => Promise<T>;
}

/** After a hint: what belongs together is often written together. */
const DEBOUNCE_MS = 50;
/** After a hint about something else in the directory: a link whose new name is not told, for one. */
const GLANCE_MS = 500;
const RETRY_BASE_MS = 100;
const RETRY_MAX_MS = 5_000;
/** Bad for so long before it is told. */
const GRACE_MS = 1_000;
/** Times of files are as coarse as two seconds, and clocks of file servers differ. */
const COARSE_MS = 120_000;
/** Contents that were refused are judged again after this: a certificate becomes valid. */
const REJUDGE_MS = 10_000;
/** Polls that only look at the files' stamps before one that reads them. */
const STAMP_POLLS = 30;

export class FileFollower<T> implements SecretWatch {
  readonly #target: FollowTarget<T>;
  readonly #context: FollowerContext;
  readonly #events: FollowEvents<T>;
  readonly #backoff: Backoff;
  readonly #onHint = (exact: boolean) => this.#plan(exact ? DEBOUNCE_MS : GLANCE_MS, exact);
  /** The next look, and whether it reads whatever the stamps say. */
  #next: { readonly dueMs: number; readonly full: boolean; readonly timer: Timer } | null = null;
  #running: Promise<void> | null = null;
  #closed = false;
  #accepted: string | null = null;
  #refused: { readonly hash: string; readonly reason: string; readonly atMs: number } | null = null;
  #stamps = "";
  #changedMs: number;
  #stampPolls = 0;
  #badSinceMs: number | null = null;
  /** That it is bad. */
  #isTold = false;
  /** Who asked for a look that has not begun, or that found what may still be on its way. */
  readonly #asking: (() => void)[] = [];

  constructor(target: FollowTarget<T>, context: FollowerContext, events: FollowEvents<T>) {
    this.#target = target;
    this.#context = context;
    this.#events = events;
    this.#changedMs = context.clock.monotonic();
    const { random } = context;
    this.#backoff = new Backoff({ baseMs: RETRY_BASE_MS, maxMs: RETRY_MAX_MS, random });
    this.#plan(0, true);
  }

  /** Looks at once; resolves when what is there now is told, or told to be bad. */
  refresh(): Promise<void> {
    if (this.#closed) return Promise.resolve();
    this.#plan(0, true);
    return new Promise((resolve) => this.#asking.push(resolve));
  }

  /** The poll: reads where stamps differ, where they cannot tell, and now and then anyway. */
  async poll(): Promise<void> {
    if (this.#closed || !this.#target.watch || this.#running) return;
    const recent = this.#context.clock.monotonic() - this.#changedMs < COARSE_MS;
    const full = recent || ++this.#stampPolls >= STAMP_POLLS;
    if (full) this.#stampPolls = 0;
    await this.#run(full);
  }

  /** Ends for good; nothing is told after it. */
  close(): void {
    this.#closed = true;
    this.#next?.timer.cancel();
    this.#next = null;
    this.#context.watches.remove(this.#onHint);
    this.#answer(this.#asking.splice(0));
  }

  /** Resolves when nothing runs any more. */
  async settled(): Promise<void> {
    await this.#running;
  }

  #plan(delayMs: number, full: boolean): void {
    if (this.#closed) return;
    const { clock } = this.#context;
    const dueMs = clock.monotonic() + delayMs;
    const next = this.#next;
    // The first hint sets the time: later ones would put it off for ever.
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
    const asking = full ? this.#asking.splice(0) : [];
    return this.#running = this.#look(full)
      .catch((error) => {
        const { log } = this.#context;
        log.error("following files failed", { error: error instanceof Error ? error.name : "" });
        this.#fail("Cannot use credentials: an unexpected failure inside");
      })
      .finally(() => {
        this.#running = null;
        this.#answer(asking);
      });
  }

  #answer(asking: readonly (() => void)[]): void {
    const mayBeOnItsWay = this.#badSinceMs !== null && !this.#isTold;
    if (mayBeOnItsWay && !this.#closed) this.#asking.push(...asking);
    else for (const resolve of asking) resolve();
  }

  async #look(full: boolean): Promise<void> {
    if (!full && this.#badSinceMs === null && await this.#stampsNow() === this.#stamps) return;
    // Before the files are read, so that a change after it is heard of.
    await this.#watchPlaces();
    const read = await this.#readAndLoad();
    if (this.#closed) return;
    switch (read.kind) {
      case "fault":
        return this.#fail(read.reason);
      case "same":
        return this.#recover();
      case "value":
        this.#recover();
        this.#events.onValue(read.value);
        if (!this.#target.watch) this.close();
        return;
    }
  }

  async #readAndLoad(): Promise<
    | { readonly kind: "fault"; readonly reason: string }
    | { readonly kind: "same" }
    | { readonly kind: "value"; readonly value: T }
  > {
    const { clock, bounded, permissions } = this.#context;
    const { files } = this.#target;
    let hash: string | undefined;
    try {
      const set = await readStable(files, {
        ...this.#context,
        isKnown: (hash) => hash === this.#accepted || hash === this.#refused?.hash,
      });
      hash = set.hash;
      this.#noteStamps(set);
      if (hash === this.#accepted) return { kind: "same" };
      const refused = this.#refused;
      if (hash === refused?.hash && clock.monotonic() - refused.atMs < REJUDGE_MS) {
        return { kind: "fault", reason: refused.reason };
      }
      const value = await bounded(() => this.#target.load(readFrom(set)));
      for (const file of files) permissions.note(file, set.readings.get(file.path)?.mode);
      this.#accepted = hash;
      this.#refused = null;
      return { kind: "value", value };
    } catch (error) {
      if (!(error instanceof ProxyError)) throw error;
      const reason = error.message;
      if (hash !== undefined) this.#refused = { hash, reason, atMs: clock.monotonic() };
      return { kind: "fault", reason };
    }
  }

  #noteStamps({ stamps }: FileSet): void {
    if (stamps === this.#stamps) return;
    this.#stamps = stamps;
    this.#changedMs = this.#context.clock.monotonic();
  }

  async #stampsNow(): Promise<string> {
    const { files, bounded } = this.#context;
    const paths = this.#target.files.map(({ path }) => path);
    const stamps = await bounded(async () => {
      const found: string[] = [];
      for (const path of paths) found.push(await files.stamp(path));
      return found;
    });
    return stamps.join(" ");
  }

  async #watchPlaces(): Promise<void> {
    const { files, watches, bounded } = this.#context;
    const target = this.#target;
    if (!target.watch || this.#closed) return;
    const paths = target.directory === undefined
      ? target.files.map(({ path }) => path)
      // Its own links are followed, too: it may be made anew, or be one itself.
      : [target.directory];
    const places = await bounded(async () => {
      const known = new Map();
      const found: WatchedNames[] = [];
      for (const path of paths) found.push(...await placesOf(path, files, known));
      return found;
    });
    if (this.#closed) return;
    const armed = await watches.set(this.#onHint, places, target.directory);
    if (this.#closed) return watches.remove(this.#onHint);
    // Deno's watches begin some milliseconds after they are made: what they missed is looked for.
    if (armed) this.#plan(GLANCE_MS, false);
  }

  #recover(): void {
    if (this.#badSinceMs === null) return;
    this.#badSinceMs = null;
    this.#isTold = false;
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
    this.#isTold = graceMs <= 0;
    if (this.#isTold) this.#events.onRejected(reason);
  }
}

/** Only what was read as one set: a file read later could be of another. */
function readFrom(set: FileSet): ReadSource {
  return (path) => {
    const reading = set.readings.get(path);
    if (reading) return Promise.resolve(reading.bytes);
    const message = `Cannot read ${path}: it is not one of the files that are followed`;
    return Promise.reject(new ProxyError("credentials_invalid", message));
  };
}
