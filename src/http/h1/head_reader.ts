/**
 * The bytes of one head, or of trailers, out of the chunks that they come in. Most heads lie in one chunk
 * and are not copied; those that come slowly are collected, each byte looked at once.
 *
 * @module
 */

import { emptyLineIn, latin1 } from "../latin1.ts";

/** More is to come. */
export const PARTIAL = -1;
/** It is longer than the limit. */
export const TOO_LARGE = -2;

const LF = 10;
const CR = 13;
const FIRST_BYTES = 1024;
const NOTHING = new Uint8Array();

export class Http1HeadReader {
  readonly #limitBytes: number;
  /** The head that was read last, its lines with their ends, the empty one included. */
  text = "";
  #bytes: Uint8Array | undefined;
  #length = 0;
  /** Length of the line that has begun; a CR does not count. */
  #lineBytes = 0;
  #collected = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  /** Whether something of a head has come that is not complete. */
  get begun(): boolean {
    return this.#length > 0;
  }

  /** How many heads came in more than one piece. */
  get collected(): number {
    return this.#collected;
  }

  /** What has come of a head that is not complete. */
  get partial(): Uint8Array {
    return this.#bytes?.subarray(0, this.#length) ?? NOTHING;
  }

  /**
   * Reads on at `at`: where the head ends in `chunk`, or {@link PARTIAL} or {@link TOO_LARGE}. A head that
   * ends its lines in a way of its own ends here, too, for its reader to refuse.
   */
  read(chunk: Uint8Array, at: number): number {
    if (this.#length === 0) {
      const end = emptyLineIn(chunk, at) + 4;
      if (end > 3 && end - at <= this.#limitBytes) {
        this.text = latin1(chunk, at, end);
        return end;
      }
    }
    return this.#collect(chunk, at);
  }

  #collect(chunk: Uint8Array, at: number): number {
    const room = this.#limitBytes - this.#length;
    const stop = Math.min(chunk.length, at + room);
    let lineBytes = this.#lineBytes;
    for (let i = at; i < stop; i++) {
      const byte = chunk[i];
      if (byte !== LF) {
        if (byte !== CR) lineBytes++;
        continue;
      }
      if (lineBytes === 0) {
        this.#keep(chunk, at, i + 1);
        this.text = latin1(this.#bytes ?? chunk, 0, this.#length);
        this.reset();
        return i + 1;
      }
      lineBytes = 0;
    }
    if (chunk.length - at >= room) return TOO_LARGE;
    this.#lineBytes = lineBytes;
    this.#keep(chunk, at, chunk.length);
    return PARTIAL;
  }

  reset(): void {
    this.#bytes = undefined;
    this.#length = this.#lineBytes = 0;
  }

  #keep(chunk: Uint8Array, from: number, to: number): void {
    if (this.#length === 0) this.#collected++;
    const length = this.#length + to - from;
    if (!this.#bytes || this.#bytes.length < length) {
      const larger = new Uint8Array(Math.max(FIRST_BYTES, 2 * length));
      if (this.#bytes) larger.set(this.#bytes.subarray(0, this.#length));
      this.#bytes = larger;
    }
    this.#bytes.set(chunk.subarray(from, to), this.#length);
    this.#length = length;
  }
}
