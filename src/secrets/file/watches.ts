/**
 * Watches on directories, one each however many secrets are in it. They only make things faster: where
 * the system gives none (quota, network file system) the poll finds every change, and each poll tries
 * for the watch again. A watch dies with its directory; one made anew at the same path is noticed.
 *
 * @module
 */

import { posix } from "node:path";
import { type Log, messageOf } from "../../base/mod.ts";
import type { DirectoryWatch, FileSystem } from "./file_system.ts";
import type { WatchedNames } from "./file_places.ts";

/** Told that something changed: `exact` where its name is one of those asked for, or not known. */
export type OnHint = (exact: boolean) => void;

interface Watched {
  readonly directory: string;
  /** By follower: the names it cares for; `null`: all. */
  readonly followers: Map<OnHint, ReadonlySet<string> | null>;
  watch: DirectoryWatch | null;
  identity: string;
  /** Its watch broke, which the next one would do as well: tried again by the next poll. */
  broken: boolean;
  /** Watches made so far. */
  generation: number;
  /** Runs while the watch is looked after, so that two do not make two. */
  arming: Promise<void> | null;
}

export class DirectoryWatches {
  readonly #files: FileSystem;
  readonly #log: Log;
  readonly #watched = new Map<string, Watched>();
  /** By follower: the directories it asked for. */
  readonly #asked = new Map<OnHint, ReadonlySet<string>>();
  /** Directories whose failure was logged. */
  readonly #told = new Set<string>();
  #closed = false;

  constructor(files: FileSystem, log: Log) {
    this.#files = files;
    this.#log = log;
  }

  /** Directories with a live watch. */
  get live(): number {
    let live = 0;
    for (const { watch } of this.#watched.values()) if (watch) live++;
    return live;
  }

  /**
   * Makes `places` all that `onHint` hears of, and `whole`, of which it hears all names; resolves when
   * watches are there, or known not to be, with whether there are new ones.
   */
  async set(onHint: OnHint, places: readonly WatchedNames[], whole?: string): Promise<boolean> {
    if (this.#closed) return false;
    const wanted = new Map<string, Set<string> | null>();
    for (const { directory, name } of places) {
      const names = wanted.get(directory) ?? new Set();
      names.add(name);
      wanted.set(directory, names);
    }
    if (whole !== undefined) wanted.set(posix.resolve("/", whole), null);
    const arming: Watched[] = [];
    for (const [directory, names] of wanted) {
      let watched = this.#watched.get(directory);
      if (!watched) {
        watched = {
          directory,
          followers: new Map(),
          watch: null,
          identity: "",
          broken: false,
          generation: 0,
          arming: null,
        };
        this.#watched.set(directory, watched);
      }
      watched.followers.set(onHint, names);
      if (!watched.watch) arming.push(watched);
    }
    for (const directory of this.#asked.get(onHint) ?? []) {
      if (!wanted.has(directory)) this.#leave(directory, onHint);
    }
    this.#asked.set(onHint, new Set(wanted.keys()));
    await Promise.all(arming.map((watched) => this.#arm(watched)));
    return arming.some((watched) => watched.watch !== null);
  }

  remove(onHint: OnHint): void {
    for (const directory of this.#asked.get(onHint) ?? []) this.#leave(directory, onHint);
    this.#asked.delete(onHint);
  }

  /** Makes watches that are missing or whose directory is another one now. */
  async verify(): Promise<void> {
    for (const watched of [...this.#watched.values()]) {
      if (this.#closed) return;
      watched.broken = false;
      await this.#arm(watched);
    }
  }

  close(): void {
    this.#closed = true;
    for (const watched of this.#watched.values()) watched.watch?.close();
    this.#watched.clear();
    this.#asked.clear();
  }

  #leave(directory: string, onHint: OnHint): void {
    const watched = this.#watched.get(directory);
    if (!watched?.followers.delete(onHint) || watched.followers.size > 0) return;
    this.#watched.delete(watched.directory);
    watched.watch?.close();
    watched.watch = null;
  }

  #arm(watched: Watched): Promise<void> {
    return watched.arming ??= this.#rearm(watched).finally(() => watched.arming = null);
  }

  async #rearm(watched: Watched): Promise<void> {
    const { directory } = watched;
    const identity = await this.#files.identity(directory);
    if (!this.#isCurrent(watched)) return;
    if ((watched.watch || watched.broken) && watched.identity === identity) return;
    const missed = watched.watch !== null;
    watched.watch?.close();
    watched.watch = null;
    watched.identity = identity;
    watched.broken = false;
    if (identity === "") return;
    try {
      // A watch that was replaced may still have something to say, and must not end its successor.
      const generation = ++watched.generation;
      const isOwn = () => watched.generation === generation;
      watched.watch = this.#files.watch(directory, {
        onHint: (name) => isOwn() && this.#hint(watched, name),
        onLost: (reason) => isOwn() && this.#broke(watched, reason),
      });
    } catch (error) {
      this.#tell(directory, messageOf(error));
    }
    if (!missed) return;
    for (const follower of [...watched.followers.keys()]) follower(true);
  }

  #isCurrent(watched: Watched): boolean {
    return !this.#closed && this.#watched.get(watched.directory) === watched;
  }

  #hint(watched: Watched, name: string | null): void {
    if (!this.#isCurrent(watched)) return;
    // Only now is it known to work.
    this.#told.delete(watched.directory);
    // The directory's own name: it was removed or moved, and the watch looks at what is no longer there.
    if (name !== null && watched.directory.endsWith(`/${name}`)) this.#lose(watched);
    for (const [follower, names] of [...watched.followers]) {
      follower(name === null || names === null || names.has(name));
    }
  }

  #broke(watched: Watched, reason: string): void {
    watched.broken = true;
    this.#tell(watched.directory, reason);
    this.#lose(watched);
  }

  #tell(directory: string, reason: string): void {
    if (this.#told.has(directory)) return;
    this.#told.add(directory);
    this.#log.warn("directory cannot be watched, it is polled", { directory, reason });
  }

  #lose(watched: Watched): void {
    watched.watch?.close();
    watched.watch = null;
    for (const follower of [...watched.followers.keys()]) follower(true);
  }
}
