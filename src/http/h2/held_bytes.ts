/**
 * What streams hold in memory for slower sides, over all connections of a thread. Up to a limit what a
 * paused one holds does not count against the window of its connection, so that a slow reader stops itself
 * and nobody else; beyond it does, and then connections with slow readers stop as a whole, and who sends
 * is stopped at once. What connections may send beyond their first window is lent for the same reason.
 *
 * @module
 */

const STRAINED = 7 / 8;
const CALM = 1 / 8;

export class HeldBytes {
  readonly #limitBytes: number;
  #bytes = 0;
  #lent = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** So little is left that no new work should be begun; what is under way needs that. */
  get isStrained(): boolean {
    return this.#bytes > this.#limitBytes * STRAINED;
  }

  /** Whether so many more fit; then they are counted until they are released. */
  take(size: number): boolean {
    if (this.#bytes + size > this.#limitBytes) return false;
    this.#bytes += size;
    return true;
  }

  release(size: number): void {
    this.#bytes -= size;
  }

  /** So little is held that who sends a lot may send more at a time. */
  get isCalm(): boolean {
    return this.#bytes <= this.#limitBytes * CALM;
  }

  /** Whether a window may be larger by so much, until that is taken back. */
  lend(size: number): boolean {
    if (!this.isCalm || this.#lent + size > this.#limitBytes) return false;
    this.#lent += size;
    return true;
  }

  takeBack(size: number): void {
    this.#lent -= size;
  }
}

/** Of this thread, for who does not say otherwise. */
export const heldByThread: HeldBytes = new HeldBytes(64 * 1024 * 1024);
