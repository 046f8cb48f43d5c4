/** Rings of bytes in shared memory, one per thread that logs. Lines without room are counted. @module */

import type { Clock } from "../../base/mod.ts";
import type { TakeLine } from "../../proxy/mod.ts";

/** Words that all rings share: 1 while the writer is woken and has not looked; bytes of each ring. */
const CALLED = 0;
const SIZE = 1;
const HEADER_BYTES = 16;
/** Words of one ring: bytes ever put in, bytes ever taken out (both wrap around), lines lost. */
const HEAD = 0;
const TAIL = 1;
const LOST = 2;
const RING_HEADER_BYTES = 16;
/** About a thousand lines: how far a reader may fall behind. */
const RING_BYTES = 1 << 18;

export const NEWLINE = 10;

export class LogRings {
  readonly memory: SharedArrayBuffer;
  /** The main thread's ring is the last: its last lines follow those of the workers. */
  readonly each: readonly LogRing[];
  readonly #words: Int32Array;

  constructor(memory: SharedArrayBuffer) {
    this.memory = memory;
    this.#words = new Int32Array(memory, 0, HEADER_BYTES / 4);
    const size = this.#words[SIZE] ?? 0;
    const count = (memory.byteLength - HEADER_BYTES) / (RING_HEADER_BYTES + size);
    this.each = Array.from({ length: count }, (_, index) => new LogRing(memory, index, size));
  }

  get own(): LogRing {
    return this.of(this.each.length - 1);
  }

  of(thread: number): LogRing {
    const ring = this.each[thread];
    if (!ring) throw new Error(`there is no ring of thread ${thread}`);
    return ring;
  }

  /** `size`: bytes of each ring, a power of two, since HEAD and TAIL wrap around. */
  static create(threads: number, size = RING_BYTES): LogRings {
    const memory = new SharedArrayBuffer(HEADER_BYTES + threads * (RING_HEADER_BYTES + size));
    new Int32Array(memory, 0, HEADER_BYTES / 4)[SIZE] = size;
    return new LogRings(memory);
  }

  get isEmpty(): boolean {
    return this.each.every((ring) => ring.isEmpty);
  }

  /** Lines that found no room or could not be written, since the start. */
  get lost(): number {
    return this.each.reduce((sum, ring) => sum + ring.lost, 0);
  }

  /** True: the writer must be woken; false: it was woken and has not looked yet. */
  call(): boolean {
    return Atomics.exchange(this.#words, CALLED, 1) === 0;
  }

  /** Called by the writer before it looks into the rings. */
  answer(): void {
    Atomics.store(this.#words, CALLED, 0);
  }
}

/** One thread puts bytes in, another takes them out. */
export class LogRing {
  readonly #words: Int32Array;
  readonly #bytes: Uint8Array;
  readonly #size: number;

  constructor(memory: SharedArrayBuffer, index: number, size: number) {
    const start = HEADER_BYTES + index * (RING_HEADER_BYTES + size);
    this.#words = new Int32Array(memory, start, RING_HEADER_BYTES / 4);
    this.#bytes = new Uint8Array(memory, start + RING_HEADER_BYTES, size);
    this.#size = size;
  }

  get isEmpty(): boolean {
    return this.#used() === 0;
  }

  get lost(): number {
    return Atomics.load(this.#words, LOST) >>> 0;
  }

  /** Takes whole lines, or counts them as lost. */
  put(bytes: Uint8Array, lines = 1): void {
    if (bytes.length > this.#size - this.#used()) return this.lose(lines);
    const head = Atomics.load(this.#words, HEAD);
    const at = head & (this.#size - 1);
    const first = Math.min(bytes.length, this.#size - at);
    this.#bytes.set(bytes.subarray(0, first), at);
    this.#bytes.set(bytes.subarray(first), 0);
    Atomics.store(this.#words, HEAD, (head + bytes.length) | 0);
  }

  lose(lines: number): void {
    Atomics.add(this.#words, LOST, lines);
  }

  /** Copies the oldest whole lines, or a part of a longer one. They stay until {@link drop}. */
  peekLines(into: Uint8Array): Uint8Array {
    const found = into.subarray(0, this.peek(into));
    return found.subarray(0, found.lastIndexOf(NEWLINE) + 1 || found.length);
  }

  /** Counts the lines of a dropped `piece` as lost. */
  losePiece(piece: Uint8Array): void {
    this.lose(piece.reduce((count, byte) => byte === NEWLINE ? count + 1 : count, 0));
  }

  /** Copies the oldest bytes into `into`; returns how many. They stay until {@link drop}. */
  peek(into: Uint8Array): number {
    const length = Math.min(into.length, this.#used());
    const at = Atomics.load(this.#words, TAIL) & (this.#size - 1);
    const first = Math.min(length, this.#size - at);
    into.set(this.#bytes.subarray(at, at + first));
    into.set(this.#bytes.subarray(0, length - first), first);
    return length;
  }

  drop(length: number): void {
    Atomics.add(this.#words, TAIL, length);
  }

  #used(): number {
    return (Atomics.load(this.#words, HEAD) - Atomics.load(this.#words, TAIL)) >>> 0;
  }
}

/** Bytes that wait for a stalled writer: 1,500 lines of 700 bytes, 0.1 s at 15,000 lines/s. */
export const ACCESS_RING_BYTES = 1 << 20;
/** Lines are joined for this time, or up to this many characters. */
const JOIN_MS = 20;
const JOIN_CHARS = 16 * 1024;

export interface AccessLines {
  readonly take: TakeLine;
  /** Puts the joined lines into the ring now. */
  flush(): void;
}

export function createAccessLines({ clock, ring, wake }: {
  readonly clock: Clock;
  readonly ring: LogRing;
  readonly wake: () => void;
}): AccessLines {
  const encoder = new TextEncoder();
  let joined = "";
  let lines = 0;
  let timed = false;
  const flush = () => {
    if (lines === 0) return;
    ring.put(encoder.encode(joined), lines);
    joined = "";
    lines = 0;
    wake();
  };
  return {
    flush,
    take(line) {
      joined += line;
      lines++;
      if (joined.length >= JOIN_CHARS) return flush();
      if (timed) return;
      timed = true;
      clock.after(JOIN_MS, () => {
        timed = false;
        flush();
      });
    },
  };
}
