/** The resources that all followed files share: watches, one poll, a limit of concurrent reads. @module */

import { type Log, ProxyError, silentLog, systemRandom, type Timer } from "../../base/mod.ts";
import {
  type Environment,
  filesOf,
  type LoadSecret,
  type SecretFile,
  withDefaults,
} from "../load/mod.ts";
import type { FileEvents, SecretRef, SecretWatch } from "../model/plan.ts";
import {
  FileFollower,
  type FollowerContext,
  type FollowEvents,
  type FollowTarget,
} from "./file_follower.ts";
import { realFiles } from "./file_system.ts";
import { DirectoryWatches } from "./watches.ts";
import type { SecretSpec, ValidationSpec } from "../model/secret.ts";

/** A change that only polling finds is in use ten seconds after it was written. */
const POLL_MS = 9_000;
const READ_LIMIT = 8;

export class FileHub {
  readonly #pollMs: number;
  readonly #followers = new Set<FileFollower<unknown>>();
  readonly #context: FollowerContext;
  #timer: Timer | null = null;
  #polling: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(
    options: Pick<FollowerContext, "clock"> & Partial<FollowerContext> & {
      /** Default 9 s. */
      readonly pollMs?: number;
    },
  ) {
    const { clock, log = silentLog, random = systemRandom, files = realFiles } = options;
    this.#pollMs = options.pollMs ?? POLL_MS;
    this.#context = {
      clock,
      log,
      random,
      files,
      watches: new DirectoryWatches(files, log),
      noteMode: modeNotes(log),
      bounded: limiter(READ_LIMIT),
    };
  }

  get watchedDirectories(): number {
    return this.#context.watches.live;
  }

  /** Events come later, never before this returns. */
  follow<T>(target: FollowTarget<T>, events: FollowEvents<T>): SecretWatch {
    const follower = new FileFollower(target, this.#context, events);
    if (this.#closed) {
      follower.close();
      return follower;
    }
    // The hub does not use the followers' values.
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
    this.#context.watches.close();
    await Promise.all([this.#polling, ...followers.map((follower) => follower.settled())]);
  }

  #planPoll(): void {
    if (this.#closed) return;
    this.#timer = this.#context.clock.after(this.#pollMs, () => {
      this.#polling = this.#poll().finally(() => this.#planPoll());
    });
  }

  async #poll(): Promise<void> {
    await this.#context.watches.verify();
    await Promise.all([...this.#followers].map((follower) => follower.poll()));
  }
}

/** Runs at most `limit` tasks at once, the rest in turn. */
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

const OTHERS_READ = 0o004;
const GROUP_READS = 0o040;

/**
 * Logs each key file that other users can read, once. Kubernetes mounts with `fsGroup` are 0640, so a
 * readable group is only noted.
 */
function modeNotes(log: Log): FollowerContext["noteMode"] {
  const noted = new Set<string>();
  return ({ path, secret }: SecretFile, mode) => {
    if (!secret || !(mode & (OTHERS_READ | GROUP_READS)) || noted.has(path)) return;
    noted.add(path);
    const fields = { file: path, mode: mode.toString(8).padStart(4, "0") };
    if (mode & OTHERS_READ) log.warn("key file is readable by others", fields);
    else log.info("key file is readable by its group", fields);
  };
}

export interface FileProviderOptions {
  readonly hub: FileHub;
  readonly load: LoadSecret;
  readonly env: Environment;
}

/** Follows the files of `spec`. Events come later, never before this returns. */
export function followSpec(
  spec: SecretSpec,
  { hub, load, env, watch, defaults }: FileProviderOptions & {
    /** False: read until it is good once. */
    readonly watch: boolean;
    readonly defaults: ValidationSpec | undefined;
  },
  events: FileEvents,
): SecretWatch {
  const whole = withDefaults(spec, defaults);
  return hub.follow({
    files: filesOf(whole, env),
    watch,
    ...whole.watchedDirectory && { directory: whole.watchedDirectory.path },
    load: (read) => load(whole, read),
  }, {
    onValue: (secret) => events.onSecret(secret, ""),
    onRejected: (reason) => events.onRejected(reason),
    onRecovered: () => events.onRecovered(),
  });
}

/** Follows a reference of source kind `spec`. */
export function watchSpec(
  { source, defaults }: SecretRef,
  options: FileProviderOptions,
  events: FileEvents,
): SecretWatch {
  if (source.kind !== "spec") {
    throw new ProxyError("internal", `Cannot follow a secret of source "${source.kind}" in files`);
  }
  return followSpec(source.spec, { ...options, watch: source.watch, defaults }, events);
}
