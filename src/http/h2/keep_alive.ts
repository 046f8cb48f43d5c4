/**
 * Asks a peer that says nothing whether it is still there, while something is wanted of it.
 *
 * @module
 */

import type { Deadline, Deadlines } from "../../base/mod.ts";

export interface KeepAliveOptions {
  /** A connection that nothing came from for so long is asked. */
  readonly intervalMs: number;
  /** ...and is over when nothing comes for so long after that. */
  readonly timeoutMs: number;
}

export class KeepAlive {
  /** Something came since it was last looked. */
  heard = false;
  readonly #options: KeepAliveOptions;
  readonly #deadlines: Deadlines;
  readonly #isWanted: () => boolean;
  readonly #ask: () => void;
  readonly #onLost: () => void;
  #deadline: Deadline;

  constructor(
    options: KeepAliveOptions,
    on: { readonly deadlines: Deadlines; isWanted(): boolean; ask(): void; lost(): void },
  ) {
    this.#options = options;
    this.#deadlines = on.deadlines;
    this.#isWanted = on.isWanted;
    this.#ask = on.ask;
    this.#onLost = on.lost;
    this.#deadline = this.#wait();
  }

  stop(): void {
    this.#deadline.cancel();
  }

  #wait(): Deadline {
    this.heard = false;
    return this.#deadlines.after(this.#options.intervalMs, () => {
      // Servers of gRPC take it amiss when nothing is open, and end the connection.
      if (this.heard || !this.#isWanted()) {
        this.#deadline = this.#wait();
        return;
      }
      this.#ask();
      this.#deadline = this.#deadlines.after(this.#options.timeoutMs, () => {
        if (this.heard) this.#deadline = this.#wait();
        else this.#onLost();
      });
    });
  }
}
