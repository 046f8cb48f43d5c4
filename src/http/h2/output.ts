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
/** Frames but DATA that wait for a peer that does not read, and their octets. */
const BLOCKED_FRAMES = 10_000;
const BLOCKED_BYTES = 4 * 1024 * 1024;

const free: Uint8Array[] = [];
/** Outputs of this turn. */
let waiting: Output[] = [];

/**
 * The piece of a body that is handed on now, if it lies behind the header of the frame in which it came:
 * that is read, and the header with which it leaves can take its place.
 */
export const passing: { chunk: Uint8Array | undefined } = { chunk: undefined };

export class Output {
  /** Memory to write to, after {@link Output.reserve}. */
  bytes: Uint8Array = NOTHING;
  /** Where the next octet goes. */
  length = 0;
  /** The stream could not take everything: nothing but what has to is to be added until it drains. */
  blocked = false;
  /** Frames since it is blocked, and their octets: what the peer causes and does not read. */
  #blockedFrames = 0;
  #blockedBytes = 0;
  /** Heads are answers to the peer, and not requests of ours, which the pool bounds. */
  readonly #countsHeads: boolean;
  readonly #stream: Stream;
  #closed = false;
  #waits = false;
  /** Memory of others that leaves as it is, after what is in `bytes`; it ends with a frame of DATA. */
  #run: Uint8Array | undefined;
  #runStart = 0;
  #runEnd = 0;
  /** Header of the last DATA frame that is still here, and of which stream. */
  #dataIn: Uint8Array = NOTHING;
  #dataAt = -1;
  #dataStream = 0;

  constructor(side: "server" | "client", stream: Stream) {
    this.#countsHeads = side === "server";
    this.#stream = stream;
  }

  /** More waits for the peer than one that reads would leave. */
  get isUnread(): boolean {
    return this.#blockedFrames > BLOCKED_FRAMES || this.#blockedBytes > BLOCKED_BYTES;
  }

  /** Makes room for `size` octets, at most {@link Output.roomBytes}. */
  reserve(size: number): void {
    if (this.#run) this.flush();
    if (this.length + size <= this.bytes.length) return;
    if (this.bytes.length > 0) return this.flush();
    this.bytes = free.pop() ?? new Uint8Array(JOINED_BYTES);
    this.#wait();
  }

  /** For the end of the turn. */
  #wait(): void {
    if (this.#waits) return;
    this.#waits = true;
    if (waiting.length === 0) queueMicrotask(endTurn);
    waiting.push(this);
  }

  get roomBytes(): number {
    return JOINED_BYTES;
  }

  /** Begins a frame whose payload of `size` octets is written next. */
  frame(type: number, flags: number, streamId: number, size: number): void {
    this.reserve(FRAME_HEADER_BYTES + size);
    if (this.blocked && (this.#countsHeads || !isHead(type))) {
      this.#blockedFrames++;
      this.#blockedBytes += FRAME_HEADER_BYTES + size;
    }
    this.#dataAt = -1;
    writeHeader(this.bytes, this.length, type, flags, streamId, size);
    this.length += FRAME_HEADER_BYTES;
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
    write32(this.bytes, this.length, value);
    this.length += 4;
  }

  put(chunk: Uint8Array): void {
    this.bytes.set(chunk, this.length);
    this.length += chunk.length;
  }

  /** A frame of DATA. `owned`: nobody changes the chunk any more. */
  data(streamId: number, chunk: Uint8Array, ends: boolean, owned: boolean): void {
    const flags = ends ? Flag.endStream : 0;
    const { length } = chunk;
    this.#dataStream = streamId;
    if (passing.chunk === chunk && this.#pass(streamId, chunk, flags)) return;
    if (owned && length >= LARGE_BYTES) {
      this.frame(FrameType.data, flags, streamId, 0);
      const at = this.length - FRAME_HEADER_BYTES;
      writeHeader(this.bytes, at, FrameType.data, flags, streamId, length);
      this.#dataIn = this.bytes;
      this.#dataAt = at;
      this.#run = chunk;
      this.#runStart = 0;
      this.#runEnd = length;
      return;
    }
    this.frame(FrameType.data, flags, streamId, length);
    this.#dataIn = this.bytes;
    this.#dataAt = this.length - FRAME_HEADER_BYTES;
    this.put(chunk);
  }

  /** Lets a chunk leave where it lies, with what lies before it. */
  #pass(streamId: number, chunk: Uint8Array, flags: number): boolean {
    const at = chunk.byteOffset - FRAME_HEADER_BYTES;
    if (!this.#reaches(chunk.buffer, at)) {
      if (chunk.length < LARGE_BYTES) return false;
      if (this.#run) this.flush();
      this.#wait();
      this.#run = new Uint8Array(chunk.buffer);
      this.#runStart = at;
    }
    this.#runEnd = chunk.byteOffset + chunk.length;
    // Those octets are used now.
    passing.chunk = undefined;
    const run = this.#run as Uint8Array;
    writeHeader(run, at, FrameType.data, flags, streamId, chunk.length);
    this.#dataIn = run;
    this.#dataAt = at;
    return true;
  }

  /** Whether the run ends there; then it can be made longer. */
  #reaches(buffer: ArrayBufferLike, at: number): boolean {
    const run = this.#run;
    if (!run || run.byteOffset + this.#runEnd !== at || run.buffer !== buffer) return false;
    if (run.length === buffer.byteLength) return true;
    this.#runStart += run.byteOffset;
    this.#run = new Uint8Array(buffer);
    return true;
  }

  /** Ends a body, in its last frame where that has not left. */
  endData(streamId: number): void {
    if (this.#dataAt >= 0 && this.#dataStream === streamId) {
      this.#dataIn[this.#dataAt + 4] = Flag.endStream;
      this.#dataAt = -1;
    } else {
      this.frame(FrameType.data, Flag.endStream, streamId, 0);
    }
  }

  /** Hands on what there is. */
  flush(): void {
    const { length } = this;
    const run = this.#run;
    this.length = 0;
    this.#dataAt = -1;
    this.#run = undefined;
    if (this.#closed) return;
    if (length > 0 && !this.#stream.write(this.bytes.subarray(0, length))) this.blocked = true;
    if (!run) return;
    const whole = this.#runEnd - this.#runStart === run.length;
    const part = whole ? run : run.subarray(this.#runStart, this.#runEnd);
    if (!this.#stream.give(part)) this.blocked = true;
  }

  /** The stream took everything. */
  drained(): void {
    this.blocked = false;
    this.#blockedFrames = this.#blockedBytes = 0;
  }

  /** What is written from here on goes nowhere. */
  close(): void {
    this.flush();
    this.#closed = true;
  }

  /** The turn is over. */
  settle(): void {
    this.flush();
    this.#waits = false;
    if (this.bytes.length > 0 && free.length < KEPT) free.push(this.bytes);
    this.bytes = NOTHING;
  }
}

function endTurn(): void {
  const turn = waiting;
  waiting = [];
  for (const output of turn) output.settle();
}

function isHead(type: number): boolean {
  return type === FrameType.headers || type === FrameType.continuation;
}

function writeHeader(
  bytes: Uint8Array,
  at: number,
  type: number,
  flags: number,
  streamId: number,
  size: number,
): void {
  bytes[at] = size >>> 16;
  bytes[at + 1] = size >>> 8;
  bytes[at + 2] = size;
  bytes[at + 3] = type;
  bytes[at + 4] = flags;
  write32(bytes, at + 5, streamId);
}

function write32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value >>> 24;
  bytes[at + 1] = value >>> 16;
  bytes[at + 2] = value >>> 8;
  bytes[at + 3] = value;
}
