/**
 * What all followed files share: watches, one poll, and a limit on how many are read at once.
 *
 * @module
 */

import {
  type Clock,
  type Log,
  type Random,
  silentLog,
  systemRandom,
  type Timer,
} from "../../base/mod.ts";
import type { SecretWatch } from "../secret_provider.ts";
import { type FileSystem, realFiles } from "./file_system.ts";
import { FileFollower, type FollowEvents, type FollowTarget } from "./file_follower.ts";
import { PermissionNotes } from "./permissions.ts";
import { DirectoryWatches } from "./watches.ts";

export interface FileHubOptions {
  readonly clock: Clock;
  readonly log?: Log;
  readonly random?: Random;
  readonly files?: FileSystem;
  /** Default 9 s. */
  readonly pollMs?: number;
}

/** What is found by polling alone is in use ten seconds after it was written. */
const POLL_MS = 9_000;
const READ_LIMIT = 8;

export class FileHub {
  readonly #clock: Clock;
  readonly #pollMs: number;
  readonly #watches: DirectoryWatches;
  readonly #followers = new Set<FileFollower<unknown>>();
  readonly #context: ConstructorParameters<typeof FileFollower>[1];
  #timer: Timer | null = null;
  #polling: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(options: FileHubOptions) {
    const { clock, log = silentLog, random = systemRandom, files = realFiles } = options;
    this.#clock = clock;
    this.#pollMs = options.pollMs ?? POLL_MS;
    this.#watches = new DirectoryWatches(files, log);
    this.#context = {
      clock,
      log,
      random,
      files,
      watches: this.#watches,
      permissions: new PermissionNotes(log),
      bounded: limiter(READ_LIMIT),
    };
  }

  /** Directories with a live watch. */
  get watchedDirectories(): number {
    return this.#watches.live;
  }

  /** Events come later, never before this returns. */
  follow<T>(target: FollowTarget<T>, events: FollowEvents<T>): SecretWatch {
    const follower = new FileFollower(target, this.#context, events);
    if (this.#closed) {
      follower.close();
      return follower;
    }
    // Where only the hub's own use of a follower counts, what it gives does not.
    this.#followers.add(follower as FileFollower<unknown>);
    if (!this.#timer) this.#planPoll();
    return {
      refresh: () => follower.refresh(),
      close: () => {
        follower.close();
        this.#followers.delete(follower as FileFollower<unknown>);
      },
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#timer?.cancel();
    const followers = [...this.#followers];
    for (const follower of followers) follower.close();
    this.#followers.clear();
    this.#watches.close();
    await Promise.all([this.#polling, ...followers.map((follower) => follower.settled())]);
  }

  #planPoll(): void {
    if (this.#closed) return;
    this.#timer = this.#clock.after(this.#pollMs, () => {
      this.#polling = this.#poll().finally(() => this.#planPoll());
    });
  }

  async #poll(): Promise<void> {
    await this.#watches.verify();
    await Promise.all([...this.#followers].map((follower) => follower.poll()));
  }
}

/** At most `limit` tasks at once, the rest in turn. */
function limiter(limit: number): <T>(task: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (task) => {
    if (running >= limit) await new Promise<void>((resolve) => waiting.push(resolve));
    else running++;
    try {
      return await task();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else running--;
    }
  };
}
