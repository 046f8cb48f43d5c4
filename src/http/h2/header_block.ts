/**
 * A header block that comes in several frames, put together within limits that are judged as it comes:
 * an endless one (a flood of CONTINUATION) never gets to its end.
 *
 * @module
 */

/** Frames of CONTINUATION after HEADERS; a block at the limit of bytes needs fewer. */
const CONTINUATIONS = 16;

export class HeaderBlock {
  /** Stream whose block is not complete; 0: none. No other frame may come before its end. */
  streamId = 0;
  /** END_STREAM of its HEADERS. */
  ends = false;
  bytes: Uint8Array = new Uint8Array();
  length = 0;
  #continuations = 0;
  readonly #limitBytes: number;

  /** What is twice as large encoded as it may be decoded is none that anybody would answer. */
  constructor(headBytes: number) {
    this.#limitBytes = headBytes * 2;
  }

  begin(streamId: number, ends: boolean, part: Uint8Array): void {
    this.streamId = streamId;
    this.ends = ends;
    this.length = this.#continuations = 0;
    this.#add(part);
  }

  /** False: it is too large, or in too many frames. */
  add(part: Uint8Array): boolean {
    const over = ++this.#continuations > CONTINUATIONS ||
      this.length + part.length > this.#limitBytes;
    if (!over) this.#add(part);
    return !over;
  }

  /** It is complete, and was read. */
  clear(): void {
    this.streamId = 0;
    this.bytes = new Uint8Array();
  }

  #add(part: Uint8Array): void {
    const length = this.length + part.length;
    if (length > this.bytes.length) {
      const larger = new Uint8Array(Math.max(length, this.bytes.length * 2));
      larger.set(this.bytes.subarray(0, this.length));
      this.bytes = larger;
    }
    this.bytes.set(part, this.length);
    this.length = length;
  }
}
