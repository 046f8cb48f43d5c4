/**
 * Outgoing frames. Frames written in one turn are joined in one piece of memory, which only writing
 * connections have, and passed to the stream at the end of the turn (see `net/turn.ts`, which does the same
 * for streams: joining here saves a call per frame, and puts the end of a body into the frame of its last
 * bytes).
 *
 * @module
 */

import type { Stream } from "../../net/mod.ts";
import { Flag, FRAME_HEADER_BYTES, FrameType } from "./frame.ts";

const JOINED_BYTES = 32 * 1024;
/** Size from which the bytes of a body are given to the stream without a copy. */
const LARGE_BYTES = 8 * 1024;
/** Pieces of memory that are kept for later turns. */
const KEPT = 16;
const NOTHING = new Uint8Array();
/** Limits for the frames other than DATA that wait for a peer that does not read. */
const BLOCKED_FRAMES = 10_000;
const BLOCKED_BYTES = 4 * 1024 * 1024;

const free: Uint8Array[] = [];
/** Outputs with frames of this turn. */
let waiting: Output[] = [];

/**
 * The chunk of a body that is being delivered, if it follows its frame header in memory: that header has
 * been read, so that the header of the outgoing frame can take its place.
 */
export const passing: { chunk: Uint8Array | undefined } = { chunk: undefined };

export class Output {
  /** Memory to write to, after {@link Output.reserve}. */
  bytes: Uint8Array = NOTHING;
  /** Where the next octet goes. */
  length = 0;
  /** The stream has not taken everything: only frames that cannot wait may be added until it drains. */
  blocked = false;
  /** Frames and octets added while it is blocked: those that the peer causes and does not read. */
  #blockedFrames = 0;
  #blockedBytes = 0;
  /** Heads count for a server only: a client's are its own requests, which the pool bounds. */
  readonly #countsHeads: boolean;
  readonly #stream: Stream;
  #closed = false;
  #waits = false;
  /** Memory of a chunk that leaves without a copy, after `bytes`; it ends with a frame of DATA. */
  #run: Uint8Array | undefined;
  #runStart = 0;
  #runEnd = 0;
  /** Header of the last DATA frame that has not left, and the stream of that frame. */
  #dataIn: Uint8Array = NOTHING;
  #dataAt = -1;
  #dataStream = 0;

  constructor(side: "server" | "client", stream: Stream) {
    this.#countsHeads = side === "server";
    this.#stream = stream;
  }

  /** More frames wait than a reading peer would leave. */
  get isUnread(): boolean {
    return this.#blockedFrames > BLOCKED_FRAMES || this.#blockedBytes > BLOCKED_BYTES;
  }

  /** Makes room for `size` octets, at most {@link JOINED_BYTES}. */
  reserve(size: number): void {
    if (this.#run) this.flush();
    if (this.length + size <= this.bytes.length) return;
    if (this.bytes.length > 0) return this.flush();
    this.bytes = free.pop() ?? new Uint8Array(JOINED_BYTES);
    this.#wait();
  }

  /** Schedules the flush at the end of the turn. */
  #wait(): void {
    if (this.#waits) return;
    this.#waits = true;
    if (waiting.length === 0) queueMicrotask(endTurn);
    waiting.push(this);
  }

  /** Begins a frame; its payload of `size` octets must be written next. */
  frame(type: number, flags: number, streamId: number, size: number): void {
    this.reserve(FRAME_HEADER_BYTES + size);
    const isHead = type === FrameType.headers || type === FrameType.continuation;
    if (this.blocked && (this.#countsHeads || !isHead)) {
      this.#blockedFrames++;
      this.#blockedBytes += FRAME_HEADER_BYTES + size;
    }
    this.#dataAt = -1;
    writeHeader(this.bytes, this.length, type, flags, streamId, size);
    this.length += FRAME_HEADER_BYTES;
  }

  /** Writes a frame with a single number as payload. */
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

  /** Writes a frame of DATA. `owned`: the chunk will not be changed by others. */
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

  /** Sends a chunk from the memory in which it came, with the run before it. */
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
    // The header octets can be used only once.
    passing.chunk = undefined;
    const run = this.#run as Uint8Array;
    writeHeader(run, at, FrameType.data, flags, streamId, chunk.length);
    this.#dataIn = run;
    this.#dataAt = at;
    return true;
  }

  /** Makes the run one of the whole buffer if it ends at this position; false: it does not. */
  #reaches(buffer: ArrayBufferLike, at: number): boolean {
    const run = this.#run;
    if (!run || run.byteOffset + this.#runEnd !== at || run.buffer !== buffer) return false;
    if (run.length === buffer.byteLength) return true;
    this.#runStart += run.byteOffset;
    this.#run = new Uint8Array(buffer);
    return true;
  }

  /** Ends a body, in its last frame if that has not left. */
  endData(streamId: number): void {
    if (this.#dataAt >= 0 && this.#dataStream === streamId) {
      this.#dataIn[this.#dataAt + 4] = Flag.endStream;
      this.#dataAt = -1;
    } else this.frame(FrameType.data, Flag.endStream, streamId, 0);
  }

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

  drained(): void {
    this.blocked = false;
    this.#blockedFrames = this.#blockedBytes = 0;
  }

  /** Drops everything that is written from now on. */
  close(): void {
    this.flush();
    this.#closed = true;
  }

  /** Ends the turn. */
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
