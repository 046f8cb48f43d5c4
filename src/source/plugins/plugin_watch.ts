/**
 * Watches the files that plugins were made of, and reports changes. It polls their state, which notices
 * every way of saving, on every file system.
 *
 * @module
 */

import { stat } from "node:fs/promises";
import type { Clock, Timer } from "../../base/mod.ts";

/** A change is reported after at most twice that: a file that is still being written is not read. */
const POLL_MS = 60;
const MAX_FILES = 1_000;

/** Differs once a file has changed; `""`: there is no file. */
export type Stamp = string;

export class PluginWatch {
  readonly #clock: Clock;
  readonly #stampOf: (path: string) => Promise<Stamp>;
  /** By path: as it was read. */
  readonly #read = new Map<string, Stamp>();
  /** Files that had changed at the last poll. */
  #changed = new Map<string, Stamp>();
  #onChange: (() => void) | undefined;
  #timer: Timer | undefined;

  constructor(clock: Clock, stampOf = stampOfFile) {
    this.#clock = clock;
    this.#stampOf = stampOf;
  }

  start(onChange: () => void): void {
    this.#onChange = onChange;
    this.#pollLater();
  }

  /** Before it is read, so that a change while that goes on is one. */
  async add(path: string): Promise<void> {
    if (!this.#read.has(path) && this.#read.size >= MAX_FILES) return;
    this.#read.set(path, await this.#stampOf(path));
  }

  close(): void {
    this.#onChange = undefined;
    this.#timer?.cancel();
  }

  #pollLater(): void {
    this.#timer = this.#clock.after(POLL_MS, () => void this.#poll());
  }

  async #poll(): Promise<void> {
    const changed = new Map<string, Stamp>();
    await Promise.all(
      [...this.#read].map(async ([path, before]) => {
        const now = await this.#stampOf(path);
        if (now !== before) changed.set(path, now);
      }),
    );
    if (!this.#onChange) return;
    const isStill = [...changed].every(([path, stamp]) => this.#changed.get(path) === stamp);
    this.#changed = changed;
    if (changed.size > 0 && isStill) {
      // A file that is read again is added again; one that is not is reported only once.
      for (const [path, stamp] of changed) this.#read.set(path, stamp);
      this.#onChange();
    }
    this.#pollLater();
  }
}

async function stampOfFile(path: string): Promise<Stamp> {
  try {
    const { mtimeNs, size, ino } = await stat(path, { bigint: true });
    return `${mtimeNs} ${size} ${ino}`;
  } catch {
    return ""; // The file is missing or unreadable: reading it reports why.
  }
}
