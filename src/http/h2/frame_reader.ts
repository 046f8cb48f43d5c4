/**
 * Reads frames in place from the bytes of the stream. A frame that comes in pieces is assembled once, in
 * memory of its size; DATA is never assembled: its pieces are passed on as they come.
 *
 * @module
 */

import { Flag, FRAME_HEADER_BYTES, FrameType, MAX_FRAME_BYTES } from "./frame.ts";

export interface FrameHandler {
  /** The handler takes no more frames. */
  readonly over: boolean;
  /** A whole frame other than DATA; its payload is `bytes[start, end)` until this returns. */
  onFrame(
    type: number,
    flags: number,
    streamId: number,
    bytes: Uint8Array,
    start: number,
    end: number,
  ): void;
  /** DATA begins: octets of body, and of padding including its length octet. */
  onDataStart(flags: number, streamId: number, bodyBytes: number, padBytes: number): void;
  /**
   * Part of the body; the receiver owns the memory. `last`: it is the last part. `followsHeader`: the header
   * of its frame is before it in memory, and the receiver owns those octets, too.
   */
  onDataPiece(chunk: Uint8Array, last: boolean, followsHeader: boolean): void;
  /** A frame larger than {@link MAX_FRAME_BYTES}, or (`padding`) with more padding than payload. */
  onBadFrame(fault: "size" | "padding"): void;
}

export class FrameReader {
  readonly #handler: FrameHandler;
  /** The beginning of an incomplete frame: memory of the frame's size, or the header's. */
  #partial: Uint8Array | undefined;
  #partialBytes = 0;
  /** Incomplete frames so far. */
  #partials = 0;
  readonly #header = new Uint8Array(FRAME_HEADER_BYTES + 1);
  /** Bytes left of the DATA frame that is being passed on. */
  #bodyLeft = 0;
  #padLeft = 0;

  constructor(handler: FrameHandler) {
    this.#handler = handler;
  }

  /** A number for the incomplete frame, other than DATA that is being passed on; 0: there is none. */
  get openFrame(): number {
    return this.#partial ? this.#partials : 0;
  }

  read(chunk: Uint8Array): void {
    let at = 0;
    while (at < chunk.length && !this.#handler.over) {
      if (this.#bodyLeft > 0) at = this.#body(chunk, at, false);
      else if (this.#padLeft > 0) {
        const size = Math.min(this.#padLeft, chunk.length - at);
        this.#padLeft -= size;
        at += size;
      } else if (this.#partial) at = this.#fill(this.#partial, chunk, at);
      else at = this.#frames(chunk, at);
    }
  }

  /** Reads the frames that begin in this chunk, up to one that is incomplete or DATA. */
  #frames(chunk: Uint8Array, at: number): number {
    const { length } = chunk;
    while (!this.#handler.over) {
      const left = length - at;
      if (left < FRAME_HEADER_BYTES) {
        if (left > 0) this.#keep(this.#header, chunk, at);
        return length;
      }
      const size = sizeAt(chunk, at);
      if (size > MAX_FRAME_BYTES) {
        this.#handler.onBadFrame("size");
        return length;
      }
      const type = chunk[at + 3] as number;
      const start = at + FRAME_HEADER_BYTES;
      if (type === FrameType.data) {
        if (needsPadLength(chunk, at, size) && start === length) {
          this.#keep(this.#header, chunk, at);
          return length;
        }
        return this.#data(chunk, at, size);
      }
      const end = start + size;
      if (end > length) {
        this.#keep(new Uint8Array(FRAME_HEADER_BYTES + size), chunk, at);
        return length;
      }
      const flags = chunk[at + 4] as number;
      this.#handler.onFrame(type, flags, idAt(chunk, at), chunk, start, end);
      at = end;
    }
    return length;
  }

  #keep(to: Uint8Array, chunk: Uint8Array, at: number): void {
    to.set(chunk.subarray(at));
    this.#partial = to;
    this.#partialBytes = chunk.length - at;
    this.#partials++;
  }

  /** Completes an incomplete frame; its header first, which has the length. */
  #fill(partial: Uint8Array, chunk: Uint8Array, at: number): number {
    const whole = partial === this.#header ? this.#headerBytes() : partial.length;
    const size = Math.min(whole - this.#partialBytes, chunk.length - at);
    partial.set(chunk.subarray(at, at + size), this.#partialBytes);
    this.#partialBytes += size;
    at += size;
    if (this.#partialBytes < whole) return at;
    if (partial !== this.#header) {
      this.#partial = undefined;
      this.#frames(partial, 0);
      return at;
    }
    if (whole < this.#headerBytes()) return at;
    this.#partial = undefined;
    const payload = sizeAt(partial, 0);
    if (payload > MAX_FRAME_BYTES) this.#handler.onBadFrame("size");
    else if (partial[3] === FrameType.data) this.#data(partial.subarray(0, whole), 0, payload);
    else if (payload === 0) this.#frames(partial.subarray(0, whole), 0);
    else {
      this.#partial = new Uint8Array(FRAME_HEADER_BYTES + payload);
      this.#partial.set(partial.subarray(0, FRAME_HEADER_BYTES));
    }
    return at;
  }

  /** Octets needed to know an incomplete frame: its header, and the length of DATA's padding. */
  #headerBytes(): number {
    if (this.#partialBytes < FRAME_HEADER_BYTES) return FRAME_HEADER_BYTES;
    const padded = this.#header[3] === FrameType.data &&
      needsPadLength(this.#header, 0, sizeAt(this.#header, 0));
    return FRAME_HEADER_BYTES + (padded ? 1 : 0);
  }

  /** Begins DATA; the header, and the length of padding, are complete. */
  #data(chunk: Uint8Array, at: number, size: number): number {
    const flags = chunk[at + 4] as number;
    let start = at + FRAME_HEADER_BYTES;
    let padBytes = 0;
    if ((flags & Flag.padded) !== 0) {
      padBytes = 1 + (size > 0 ? chunk[start] as number : 0);
      if (padBytes > size) {
        this.#handler.onBadFrame("padding");
        return chunk.length;
      }
      start++;
      this.#padLeft = padBytes - 1;
    }
    this.#bodyLeft = size - padBytes;
    this.#handler.onDataStart(flags, idAt(chunk, at), this.#bodyLeft, padBytes);
    if (this.#bodyLeft === 0) {
      if (!this.#handler.over) this.#handler.onDataPiece(NOTHING, true, false);
      return start;
    }
    return start < chunk.length && !this.#handler.over ? this.#body(chunk, start, true) : start;
  }

  #body(chunk: Uint8Array, at: number, behindHeader: boolean): number {
    const end = Math.min(at + this.#bodyLeft, chunk.length);
    const size = end - at;
    this.#bodyLeft -= size;
    // Copying a small piece costs no more than a view of it.
    const small = size < SMALL_BYTES;
    const piece = small
      ? copyOf.call(chunk, at, end)
      : new Uint8Array(chunk.buffer, chunk.byteOffset + at, size);
    this.#handler.onDataPiece(piece, this.#bodyLeft === 0, behindHeader && !small);
    return end;
  }
}

const NOTHING = new Uint8Array();
/** A Buffer's own `slice` copies nothing. */
const copyOf = Uint8Array.prototype.slice;
const SMALL_BYTES = 1024;

function needsPadLength(bytes: Uint8Array, at: number, size: number): boolean {
  return ((bytes[at + 4] as number) & Flag.padded) !== 0 && size > 0 && size <= MAX_FRAME_BYTES;
}

function sizeAt(bytes: Uint8Array, at: number): number {
  return ((bytes[at] as number) << 16) | ((bytes[at + 1] as number) << 8) |
    (bytes[at + 2] as number);
}

function idAt(bytes: Uint8Array, at: number): number {
  return (((bytes[at + 5] as number) & 0x7f) << 24) | ((bytes[at + 6] as number) << 16) |
    ((bytes[at + 7] as number) << 8) | (bytes[at + 8] as number);
}

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
