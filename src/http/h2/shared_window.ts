/**
 * The window of a connection for what its peer sends. It doubles while it is used up fast, so that who
 * sends a lot need not wait for us, and shrinks again by not being given back.
 *
 * @module
 */

import type { HeldBytes } from "../held_bytes.ts";
import { DEFAULT_WINDOW_BYTES } from "./frame.ts";

/** How much larger than at first it may become. */
const GROWTH = 16;
/** A window of which a half is used within that time is used up fast. */
export const FAST_MS = 100;

export class SharedWindow {
  /** What the peer may still send. */
  left: number;
  readonly #held: HeldBytes;
  readonly #firstBytes: number;
  #bytes: number;
  /** Used no more, and not given back. */
  #freed = 0;
  #gaveBackMs = -Infinity;

  constructor(bytes: number, held: HeldBytes) {
    this.#held = held;
    this.left = this.#firstBytes = this.#bytes = Math.max(bytes, DEFAULT_WINDOW_BYTES);
  }

  /** So much is used no more. What the peer is to be told that it may send in addition; 0: nothing yet. */
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

  /** The connection is over. */
  end(): void {
    this.#held.takeBack(this.#bytes - this.#firstBytes);
  }
}
