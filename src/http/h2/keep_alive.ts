/**
 * Probes a silent peer while requests are open.
 *
 * @module
 */

import type { Deadline, Deadlines } from "../../base/mod.ts";

export interface KeepAliveOptions {
  /** Silence after which a PING is sent. */
  readonly intervalMs: number;
  /** Silence after the PING that ends the connection. */
  readonly timeoutMs: number;
}

export class KeepAlive {
  /** Something was received since the last check. */
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
      // gRPC servers end a connection that sends PING while no request is open.
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
