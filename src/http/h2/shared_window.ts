/**
 * The receive window of a connection. It doubles while it is used up fast, so that a peer which sends a lot
 * does not wait for us. It shrinks again by octets that are not given back.
 *
 * @module
 */

import type { HeldBytes } from "../held_bytes.ts";
import { DEFAULT_WINDOW_BYTES } from "./frame.ts";

/** The maximum as a multiple of the initial window. */
const GROWTH = 16;
/** A window is used up fast if half of it is used within this time. */
export const FAST_MS = 100;

export class SharedWindow {
  /** Octets that the peer may still send. */
  left: number;
  readonly #held: HeldBytes;
  readonly #firstBytes: number;
  #bytes: number;
  /** Octets that were freed, and not given back. */
  #freed = 0;
  #gaveBackMs = -Infinity;

  constructor(bytes: number, held: HeldBytes) {
    this.#held = held;
    this.left = this.#firstBytes = this.#bytes = Math.max(bytes, DEFAULT_WINDOW_BYTES);
  }

  /** Frees octets. Returns the increment for a WINDOW_UPDATE; 0: none is due. */
  free(size: number, nowMs: number): number {
    this.#freed += size;
    if (this.#freed * 2 < this.#bytes) return 0;
    const isFast = nowMs - this.#gaveBackMs < FAST_MS;
    this.#gaveBackMs = nowMs;
    if (isFast && this.#bytes < this.#firstBytes * GROWTH && this.#held.lend(this.#bytes)) {
      this.#freed += this.#bytes;
      this.#bytes *= 2;
    } else if (this.#bytes > this.#firstBytes && !(isFast && this.#held.isCalm)) {
      this.#bytes /= 2;
      this.#freed -= this.#bytes;
      this.#held.takeBack(this.#bytes);
    }
    const more = this.#freed;
    this.#freed = 0;
    this.left += more;
    return more;
  }

  /** Returns borrowed octets at the end of the connection. */
  end(): void {
    this.#held.takeBack(this.#bytes - this.#firstBytes);
  }
}
