/** Announces the first of many changes in the same turn, and the next ones after growing pauses. @module */

import type { Clock, Timer } from "../../base/mod.ts";

const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 160;

export class Coalescer {
  readonly #clock: Clock;
  readonly #announce: () => void;
  #pauseMs = FIRST_PAUSE_MS;
  #timer: Timer | undefined;
  #isPending = false;
  #closed = false;

  constructor(clock: Clock, announce: () => void) {
    this.#clock = clock;
    this.#announce = announce;
  }

  /** Changes of one turn are announced together: a message with a certificate and its bundle is one. */
  changed(): void {
    if (this.#isPending || this.#closed) return;
    this.#isPending = true;
    if (!this.#timer) queueMicrotask(() => this.#timer ? undefined : this.#fire());
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  #fire(): void {
    if (this.#closed) return;
    this.#isPending = false;
    this.#timer = this.#clock.after(this.#pauseMs, () => this.#paused());
    this.#announce();
  }

  #paused(): void {
    this.#timer = undefined;
    if (!this.#isPending) {
      this.#pauseMs = FIRST_PAUSE_MS;
      return;
    }
    this.#pauseMs = Math.min(LONGEST_PAUSE_MS, this.#pauseMs * 2);
    this.#fire();
  }
}
