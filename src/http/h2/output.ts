/**
 * Frames on their way out. What is written in one turn is put together in one piece of memory, which only
 * connections that write have, and handed to the stream when the turn is over (see `net/turn.ts`, which
 * does the same for streams: here it saves a call per frame, and lets the end of a body be said in the
 * frame of its last bytes).
 *
 * @module
 */

import type { Stream } from "../../net/mod.ts";
import { Flag, FRAME_HEADER_BYTES, FrameType } from "./frame.ts";

const JOINED_BYTES = 32 * 1024;
/** A body's bytes from here on are given away as they are instead of being copied. */
const LARGE_BYTES = 8 * 1024;
/** Pieces of memory that are kept for the next turn. */
const KEPT = 16;
const NOTHING = new Uint8Array();

const free: Uint8Array[] = [];
/** Of this turn. */
let waiting: Output[] = [];

export class Output {
  /** Memory to write to, after {@link Output.reserve}. */
  bytes: Uint8Array = NOTHING;
  /** Where the next octet goes. */
  length = 0;
  /** The stream could not take everything: nothing but what has to is to be added until it drains. */
  blocked = false;
  /** Frames since it is blocked, and their octets. */
  blockedFrames = 0;
  blockedBytes = 0;
  readonly #stream: Stream;
  #closed = false;
  /** Header of the last DATA frame that is still here, and of which stream. */
  #dataAt = -1;
  #dataStream = 0;

  constructor(stream: Stream) {
    this.#stream = stream;
  }

  /** Makes room for `size` octets, at most {@link Output.roomBytes}. */
  reserve(size: number): void {
    if (this.length + size <= this.bytes.length) return;
    if (this.bytes.length > 0) return this.flush();
    this.bytes = free.pop() ?? new Uint8Array(JOINED_BYTES);
    if (waiting.length === 0) queueMicrotask(endTurn);
    waiting.push(this);
  }

  get roomBytes(): number {
    return JOINED_BYTES;
  }

  /** Begins a frame whose payload of `size` octets is written next. */
  frame(type: number, flags: number, streamId: number, size: number): void {
    this.reserve(FRAME_HEADER_BYTES + size);
    if (this.blocked) {
      this.blockedFrames++;
      this.blockedBytes += FRAME_HEADER_BYTES + size;
    }
    this.#dataAt = -1;
    this.header(this.length, type, flags, streamId, size);
    this.length += FRAME_HEADER_BYTES;
  }

  header(at: number, type: number, flags: number, streamId: number, size: number): void {
    const { bytes } = this;
    bytes[at] = size >>> 16;
    bytes[at + 1] = size >>> 8;
    bytes[at + 2] = size;
    bytes[at + 3] = type;
    bytes[at + 4] = flags;
    this.#write32(at + 5, streamId);
  }

  /** A frame whose payload is one number. */
  frame32(type: number, streamId: number, value: number): void {
    this.frame(type, 0, streamId, 4);
    this.put32(value);
  }

  put16(value: number): void {
    this.bytes[this.length++] = value >>> 8;
    this.bytes[this.length++] = value;
  }

  put32(value: number): void {
    this.#write32(this.length, value);
    this.length += 4;
  }

  put(chunk: Uint8Array): void {
    this.bytes.set(chunk, this.length);
    this.length += chunk.length;
  }

  /** A frame of DATA. `owned`: nobody changes the chunk any more. */
  data(streamId: number, chunk: Uint8Array, ends: boolean, owned: boolean): void {
    const flags = ends ? Flag.endStream : 0;
    if (owned && chunk.length >= LARGE_BYTES) {
      this.frame(FrameType.data, flags, streamId, 0);
      this.header(this.length - FRAME_HEADER_BYTES, FrameType.data, flags, streamId, chunk.length);
      this.flush();
      if (!this.#closed && !this.#stream.give(chunk)) this.blocked = true;
      return;
    }
    this.frame(FrameType.data, flags, streamId, chunk.length);
    this.#dataAt = this.length - FRAME_HEADER_BYTES;
    this.#dataStream = streamId;
    this.put(chunk);
  }

  /** Ends a body, in its last frame where that has not left. */
  endData(streamId: number): void {
    if (this.#dataAt >= 0 && this.#dataStream === streamId) {
      this.bytes[this.#dataAt + 4] = Flag.endStream;
      this.#dataAt = -1;
    } else {
      this.frame(FrameType.data, Flag.endStream, streamId, 0);
    }
  }

  /** Hands on what there is. */
  flush(): void {
    const { length } = this;
    if (length === 0) return;
    this.length = 0;
    this.#dataAt = -1;
    if (!this.#closed && !this.#stream.write(this.bytes.subarray(0, length))) this.blocked = true;
  }

  /** The stream took everything. */
  drained(): void {
    this.blocked = false;
    this.blockedFrames = this.blockedBytes = 0;
  }

  /** What is written from here on goes nowhere. */
  close(): void {
    this.flush();
    this.#closed = true;
  }

  /** The turn is over. */
  settle(): void {
    this.flush();
    if (free.length < KEPT) free.push(this.bytes);
    this.bytes = NOTHING;
  }

  #write32(at: number, value: number): void {
    const { bytes } = this;
    bytes[at] = value >>> 24;
    bytes[at + 1] = value >>> 16;
    bytes[at + 2] = value >>> 8;
    bytes[at + 3] = value;
  }
}

function endTurn(): void {
  const turn = waiting;
  waiting = [];
  for (const output of turn) output.settle();
}
