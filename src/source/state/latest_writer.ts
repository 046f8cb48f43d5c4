/** Writes the newest of several values soon, one at a time, and tries again where that failed. @module */

import type { Clock, Timer } from "../../base/mod.ts";

interface LatestWriterOptions<T> {
  readonly clock: Pick<Clock, "monotonic" | "after">;
  /** Least time between the starts of two writes. */
  readonly intervalMs: number;
  /** The first write after a pause waits for this time; default: none. */
  readonly gatherMs?: number;
  /** False: it is not written. Never rejects. */
  readonly write: (value: T) => Promise<boolean>;
}

/** After a failed write, when nothing new comes. */
const RETRY_INTERVAL_MS = 30_000;

export class LatestWriter<T> {
  readonly #options: LatestWriterOptions<T>;
  #waiting: { readonly value: T } | undefined;
  #writing: Promise<void> | undefined;
  #timer: Timer | undefined;
  #lastWriteMs = -Infinity;
  #closed = false;

  constructor(options: LatestWriterOptions<T>) {
    this.#options = options;
  }

  /** Soon, and only the newest. Never throws. */
  save(value: T): void {
    if (this.#closed) return;
    this.#waiting = { value };
    this.#schedule(this.#dueInMs);
  }

  /** Writes what is waiting, and nothing from now on. Never rejects. */
  close(): Promise<void> {
    this.#closed = true;
    return this.flush();
  }

  /** Writes at once what is waiting. Never rejects. */
  async flush(): Promise<void> {
    this.#timer?.cancel();
    await this.#writing;
    if (this.#waiting) await this.#write();
  }

  get #dueInMs(): number {
    const { clock, intervalMs, gatherMs = 0 } = this.#options;
    const sinceMs = clock.monotonic() - this.#lastWriteMs;
    return Math.max(gatherMs, intervalMs - sinceMs);
  }

  #schedule(delayMs: number): void {
    this.#timer?.cancel();
    this.#timer = this.#options.clock.after(delayMs, () => {
      this.#timer = undefined;
      if (!this.#closed && !this.#writing) void this.#write();
    });
  }

  #write(): Promise<void> {
    const waiting = this.#waiting;
    if (!waiting) return Promise.resolve();
    this.#waiting = undefined;
    this.#lastWriteMs = this.#options.clock.monotonic();
    this.#writing = this.#options.write(waiting.value).then((written) => {
      this.#writing = undefined;
      if (!written) this.#waiting ??= waiting;
      if (this.#waiting && !this.#closed) {
        this.#schedule(written ? this.#dueInMs : RETRY_INTERVAL_MS);
      }
    });
    return this.#writing;
  }
}
