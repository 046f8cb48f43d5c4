/**
 * What paused streams hold in memory, over all connections of a thread. Up to a limit it does not count
 * against the windows of their connections, so that one slow reader stops itself and nobody else; beyond
 * it does, and then connections with slow readers stop as a whole.
 *
 * @module
 */

export class HeldBytes {
  readonly #limitBytes: number;
  #bytes = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  get bytes(): number {
    return this.#bytes;
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
}

/** Of this thread, for who does not say otherwise. */
export const heldByThread: HeldBytes = new HeldBytes(64 * 1024 * 1024);
