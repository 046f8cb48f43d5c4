/**
 * Makes few announcements of many changes: the first after a quiet period goes out in the same turn,
 * those that follow wait for a while that grows as long as they keep coming.
 *
 * @module
 */

import type { Clock, Timer } from "../../base/mod.ts";

const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 160;

export class Coalescer {
  readonly #clock: Clock;
  readonly #announce: () => void;
  #pauseMs = FIRST_PAUSE_MS;
  #timer: Timer | undefined;
  #changed = false;
  #closed = false;

  constructor(clock: Clock, announce: () => void) {
    this.#clock = clock;
    this.#announce = announce;
  }

  /**
   * Something changed. What else changes before the current turn ends is announced with it: a message
   * that brings a certificate and its bundle is one change.
   */
  changed(): void {
    if (this.#changed || this.#closed) return;
    this.#changed = true;
    if (!this.#timer) queueMicrotask(() => this.#timer ? undefined : this.#tell());
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  #tell(): void {
    if (this.#closed) return;
    this.#changed = false;
    this.#timer = this.#clock.after(this.#pauseMs, () => this.#paused());
    this.#announce();
  }

  #paused(): void {
    this.#timer = undefined;
    if (!this.#changed) {
      this.#pauseMs = FIRST_PAUSE_MS;
      return;
    }
    this.#pauseMs = Math.min(LONGEST_PAUSE_MS, this.#pauseMs * 2);
    this.#tell();
  }
}
