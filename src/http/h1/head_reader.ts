/**
 * Finds the bytes of one head, or of trailers, in the chunks of a stream. Most heads lie in one chunk and
 * are not copied; slower ones are collected, and each byte is looked at once.
 *
 * @module
 */

import { emptyLineIn, latin1 } from "../latin1.ts";

/** The head is not complete. */
export const PARTIAL = -1;
/** The head exceeds the limit. */
export const TOO_LARGE = -2;

const LF = 10;
const CR = 13;
const FIRST_BYTES = 1024;
const NOTHING = new Uint8Array();

export class Http1HeadReader {
  readonly #limitBytes: number;
  /** The last complete head: start line and fields, each with its CRLF, and the empty line at the end. */
  text = "";
  #bytes: Uint8Array | undefined;
  #length = 0;
  /** Length of the current line; a CR does not count. */
  #lineBytes = 0;
  #collected = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  /** Whether part of an incomplete head has come. */
  get begun(): boolean {
    return this.#length > 0;
  }

  /** Number of heads that came in more than one piece. */
  get collected(): number {
    return this.#collected;
  }

  /** The bytes of an incomplete head. */
  get partial(): Uint8Array {
    return this.#bytes?.subarray(0, this.#length) ?? NOTHING;
  }

  /**
   * Continues at `at`. Returns the end of the head in `chunk`, or {@link PARTIAL} or {@link TOO_LARGE}. A
   * head with bare LF line ends is complete as well, and its parser refuses it.
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
