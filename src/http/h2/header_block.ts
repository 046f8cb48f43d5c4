/**
 * Assembles a header block that comes in several frames. Its limits are checked with each frame, so that an
 * endless one (a flood of CONTINUATION) is refused in time.
 *
 * @module
 */

/** CONTINUATION frames allowed after HEADERS; a block at the limit of bytes needs fewer. */
const CONTINUATIONS = 16;

export class HeaderBlock {
  /** Stream of the incomplete block; 0: none. No other frame may come before its end. */
  streamId = 0;
  /** Its HEADERS had END_STREAM. */
  ends = false;
  bytes: Uint8Array = new Uint8Array();
  length = 0;
  #continuations = 0;
  readonly #limitBytes: number;

  /** A block twice as large as its decoded form may be would be refused in any case. */
  constructor(headBytes: number) {
    this.#limitBytes = headBytes * 2;
  }

  begin(streamId: number, ends: boolean, part: Uint8Array): void {
    this.streamId = streamId;
    this.ends = ends;
    this.length = this.#continuations = 0;
    this.#add(part);
  }

  /** False: the block is too large, or has too many frames. */
  add(part: Uint8Array): boolean {
    const over = ++this.#continuations > CONTINUATIONS ||
      this.length + part.length > this.#limitBytes;
    if (!over) this.#add(part);
    return !over;
  }

  /** Ends the block, which was complete and has been read. */
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
