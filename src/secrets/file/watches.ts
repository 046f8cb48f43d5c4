/** One watch per directory. It only makes changes visible sooner: the poll finds all of them. @module */

import { posix } from "node:path";
import { type Log, messageOf } from "../../base/mod.ts";
import type { DirectoryWatch, FileSystem } from "./file_system.ts";

/** Called after a change. `exact`: the changed name is a watched one, or not known. */
type OnHint = (exact: boolean) => void;

interface Directory {
  readonly path: string;
  /** The watched names by follower; `null`: all. */
  readonly followers: Map<OnHint, ReadonlySet<string> | null>;
  watch: DirectoryWatch | null;
  identity: string;
  /** The watch broke, as a new one would now: the next poll tries again. */
  broken: boolean;
  generation: number;
  /** Pending while the watch is made, so that there are never two. */
  arming: Promise<void> | null;
}

export class DirectoryWatches {
  readonly #files: FileSystem;
  readonly #log: Log;
  readonly #directories = new Map<string, Directory>();
  readonly #paths = new Map<OnHint, ReadonlySet<string>>();
  /** Directories whose failure is logged. */
  readonly #logged = new Set<string>();
  #closed = false;

  constructor(files: FileSystem, log: Log) {
    this.#files = files;
    this.#log = log;
  }

  get live(): number {
    let live = 0;
    for (const { watch } of this.#directories.values()) if (watch) live++;
    return live;
  }

  /**
   * Sets the places that a follower gets hints about: `places`, and all names in `whole`. Resolves when the
   * watches are made, or cannot be: true if there are new ones.
   */
  async set(onHint: OnHint, places: readonly WatchedName[], whole?: string): Promise<boolean> {
    if (this.#closed) return false;
    const wanted = new Map<string, Set<string> | null>();
    for (const { directory, name } of places) {
      const names = wanted.get(directory) ?? new Set();
      names.add(name);
      wanted.set(directory, names);
    }
    if (whole !== undefined) wanted.set(posix.resolve("/", whole), null);
    const unwatched: Directory[] = [];
    for (const [path, names] of wanted) {
      const directory = this.#directory(path);
      directory.followers.set(onHint, names);
      if (!directory.watch) unwatched.push(directory);
    }
    for (const path of this.#paths.get(onHint) ?? []) {
      if (!wanted.has(path)) this.#leave(path, onHint);
    }
    this.#paths.set(onHint, new Set(wanted.keys()));
    await Promise.all(unwatched.map((directory) => this.#arm(directory)));
    return unwatched.some(({ watch }) => watch !== null);
  }

  remove(onHint: OnHint): void {
    for (const path of this.#paths.get(onHint) ?? []) this.#leave(path, onHint);
    this.#paths.delete(onHint);
  }

  /** Makes missing watches, and those whose directory was replaced. */
  async verify(): Promise<void> {
    for (const directory of [...this.#directories.values()]) {
      if (this.#closed) return;
      directory.broken = false;
      await this.#arm(directory);
    }
  }

  close(): void {
    this.#closed = true;
    for (const { watch } of this.#directories.values()) watch?.close();
    this.#directories.clear();
    this.#paths.clear();
  }

  #directory(path: string): Directory {
    let directory = this.#directories.get(path);
    if (!directory) {
      directory = {
        path,
        followers: new Map(),
        watch: null,
        identity: "",
        broken: false,
        generation: 0,
        arming: null,
      };
      this.#directories.set(path, directory);
    }
    return directory;
  }

  #leave(path: string, onHint: OnHint): void {
    const directory = this.#directories.get(path);
    if (!directory?.followers.delete(onHint) || directory.followers.size > 0) return;
    this.#directories.delete(path);
    directory.watch?.close();
    directory.watch = null;
  }

  #arm(directory: Directory): Promise<void> {
    return directory.arming ??= this.#rearm(directory).finally(() => directory.arming = null);
  }

  async #rearm(directory: Directory): Promise<void> {
    const { path } = directory;
    const identity = await this.#files.identity(path);
    if (!this.#isCurrent(directory)) return;
    if ((directory.watch || directory.broken) && directory.identity === identity) return;
    const isReplaced = directory.watch !== null;
    directory.watch?.close();
    directory.watch = null;
    directory.identity = identity;
    directory.broken = false;
    if (identity === "") return;
    try {
      // A late event of an older watch must not end this one.
      const generation = ++directory.generation;
      const isOwn = () => directory.generation === generation;
      directory.watch = this.#files.watch(path, {
        onHint: (name) => isOwn() && this.#hint(directory, name),
        onLost: (reason) => isOwn() && this.#broke(directory, reason),
      });
    } catch (error) {
      this.#warn(path, messageOf(error));
    }
    if (isReplaced) notifyAll(directory);
  }

  #isCurrent(directory: Directory): boolean {
    return !this.#closed && this.#directories.get(directory.path) === directory;
  }

  #hint(directory: Directory, name: string | null): void {
    if (!this.#isCurrent(directory)) return;
    const { path } = directory;
    // The first hint proves that the watch works.
    this.#logged.delete(path);
    // The hint has the directory's own name: it was removed or moved, and the watch is on the old one.
    if (name !== null && path.endsWith(`/${name}`)) this.#lose(directory);
    for (const [follower, names] of [...directory.followers]) {
      follower(name === null || names === null || names.has(name));
    }
  }

  #broke(directory: Directory, reason: string): void {
    directory.broken = true;
    this.#warn(directory.path, reason);
    this.#lose(directory);
  }

  #warn(directory: string, reason: string): void {
    if (this.#logged.has(directory)) return;
    this.#logged.add(directory);
    this.#log.warn("directory cannot be watched, it is polled", { directory, reason });
  }

  #lose(directory: Directory): void {
    directory.watch?.close();
    directory.watch = null;
    notifyAll(directory);
  }
}

function notifyAll({ followers }: Directory): void {
  for (const follower of [...followers.keys()]) follower(true);
}

/** A directory, and a name in it whose change means a change of the file. */
export interface WatchedName {
  readonly directory: string;
  readonly name: string;
}

/** Linux' own limit before ELOOP. */
const LINK_LIMIT = 40;
const PART_LIMIT = 256;

/**
 * The places of one absolute path. `known` remembers entries, so that a thousand files of one directory
 * cost little more than one: pass one map per round.
 */
export async function placesOf(
  path: string,
  files: Pick<FileSystem, "entry">,
  known = new Map<string, ReturnType<FileSystem["entry"]>>(),
): Promise<readonly WatchedName[]> {
  const places: WatchedName[] = [];
  let rest = partsOf(posix.resolve("/", path));
  let directory = "/";
  let links = 0;
  for (let parts = 0; rest.length > 0 && parts < PART_LIMIT; parts++) {
    const [name = "", ...after] = rest;
    const here = posix.join(directory, name);
    let lookup = known.get(here);
    if (!lookup) known.set(here, lookup = files.entry(here));
    const entry = await lookup;
    rest = after;
    switch (entry.kind) {
      case "directory":
        // A directory at the path of the file may make room for it again.
        if (after.length === 0) places.push({ directory, name });
        directory = here;
        break;
      case "symlink":
        places.push({ directory, name });
        if (++links > LINK_LIMIT) return places;
        rest = [...partsOf(posix.resolve(directory, entry.target)), ...after];
        directory = "/";
        break;
      case "other":
      case "none":
        places.push({ directory, name });
        return places;
    }
  }
  return places;
}

function partsOf(path: string): string[] {
  return path.split("/").filter((part) => part !== "");
}
