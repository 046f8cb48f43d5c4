/**
 * A queue of bytes that wait for a slower side, in the chunks in which they came. Small chunks are joined,
 * and small parts of large reads are copied, so that the queue takes little more memory than its bytes.
 *
 * @module
 */

import { unpinned } from "../../base/mod.ts";

const SMALL_BYTES = 1024;
const BLOCK_BYTES = 2048;

export class ChunkQueue {
  bytes = 0;
  readonly #chunks: Uint8Array[] = [];
  #first = 0;
  /** Memory of the last chunk, with room after it. */
  #block: Uint8Array | undefined;

  /** The queue owns the chunk from now on. */
  push(chunk: Uint8Array): void {
    const { length } = chunk;
    if (length === 0) return;
    this.bytes += length;
    if (length >= SMALL_BYTES) {
      this.#block = undefined;
      this.#chunks.push(unpinned(chunk));
      return;
    }
    const last = this.#block && this.#chunks[this.#chunks.length - 1];
    if (this.#block && last && last.length + length <= BLOCK_BYTES) {
      this.#block.set(chunk, last.length);
      this.#chunks[this.#chunks.length - 1] = this.#block.subarray(0, last.length + length);
      return;
    }
    this.#block = new Uint8Array(BLOCK_BYTES);
    this.#block.set(chunk);
    this.#chunks.push(this.#block.subarray(0, length));
  }

  /** Takes the next bytes, at most `limitBytes`; the queue must not be empty. */
  take(limitBytes: number): Uint8Array {
    const chunk = this.#chunks[this.#first] as Uint8Array;
    // The receiver owns what it takes, so that nothing is appended to it.
    if (this.#first === this.#chunks.length - 1) this.#block = undefined;
    if (chunk.length > limitBytes) {
      this.bytes -= limitBytes;
      this.#chunks[this.#first] = chunk.subarray(limitBytes);
      return chunk.subarray(0, limitBytes);
    }
    this.bytes -= chunk.length;
    this.#first++;
    if (this.#first === this.#chunks.length) this.clear();
    else if (this.#first === 64) {
      this.#chunks.splice(0, 64);
      this.#first = 0;
    }
    return chunk;
  }

  clear(): void {
    this.bytes = 0;
    this.#chunks.length = 0;
    this.#first = 0;
    this.#block = undefined;
  }
}
