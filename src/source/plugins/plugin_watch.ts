/**
 * Looks at the files that plugins were made of, where that is asked for, and tells when some changed. They
 * are asked for their state again and again: that sees every way of saving, on every file system.
 *
 * @module
 */

import { stat } from "node:fs/promises";
import type { Clock, Timer } from "../../base/mod.ts";

/** Twice that at most until a change is told: a file that is still being written is let be. */
const LOOK_MS = 60;
const MAX_FILES = 1_000;

/** What differs once a file has changed; `""`: there is none. */
export type Stamp = string;

export class PluginWatch {
  readonly #clock: Clock;
  readonly #stampOf: (path: string) => Promise<Stamp>;
  /** By path: as it was read. */
  readonly #read = new Map<string, Stamp>();
  /** As the last look found those that have changed. */
  #changed = new Map<string, Stamp>();
  #onChange: (() => void) | undefined;
  #timer: Timer | undefined;

  constructor(clock: Clock, stampOf = stampOfFile) {
    this.#clock = clock;
    this.#stampOf = stampOf;
  }

  start(onChange: () => void): void {
    this.#onChange = onChange;
    this.#wait();
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

  #wait(): void {
    this.#timer = this.#clock.after(LOOK_MS, () => void this.#look());
  }

  async #look(): Promise<void> {
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
      // Whoever reads them says so anew; what nobody reads any more is told once.
      for (const [path, stamp] of changed) this.#read.set(path, stamp);
      this.#onChange();
    }
    this.#wait();
  }
}

async function stampOfFile(path: string): Promise<Stamp> {
  try {
    const { mtimeNs, size, ino } = await stat(path, { bigint: true });
    return `${mtimeNs} ${size} ${ino}`;
  } catch {
    return ""; // not there, or not to be seen: what reads it says so
  }
}
