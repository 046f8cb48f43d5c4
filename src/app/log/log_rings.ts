/**
 * Lines on their way from the threads that log to the one that writes them: one ring of bytes per
 * thread, in shared memory. Who logs never waits; a line that finds no room is counted.
 *
 * @module
 */

/** The word that all rings share: 1 from when the writer was called until it comes. */
const CALLED = 0;
const HEADER_BYTES = 16;
/** Words of one ring: bytes ever put in, bytes ever taken out (both run over), lines lost. */
const HEAD = 0;
const TAIL = 1;
const LOST = 2;
const RING_HEADER_BYTES = 16;
/** About a thousand lines is what a reader may fall behind. A power of two: see HEAD. */
const RING_BYTES = 1 << 18;

export class LogRings {
  readonly memory: SharedArrayBuffer;
  /** The main thread's is the last: what it says of the end of all comes after what it is about. */
  readonly each: readonly LogRing[];
  readonly #words: Int32Array;

  constructor(memory: SharedArrayBuffer) {
    this.memory = memory;
    this.#words = new Int32Array(memory, 0, HEADER_BYTES / 4);
    const count = (memory.byteLength - HEADER_BYTES) / (RING_HEADER_BYTES + RING_BYTES);
    this.each = Array.from({ length: count }, (_, index) => new LogRing(memory, index));
  }

  /** The main thread's. */
  get own(): LogRing {
    return this.of(this.each.length - 1);
  }

  of(thread: number): LogRing {
    const ring = this.each[thread];
    if (!ring) throw new Error(`there is no ring of thread ${thread}`);
    return ring;
  }

  static create(threads: number): LogRings {
    const size = HEADER_BYTES + threads * (RING_HEADER_BYTES + RING_BYTES);
    return new LogRings(new SharedArrayBuffer(size));
  }

  get isEmpty(): boolean {
    return this.each.every((ring) => ring.isEmpty);
  }

  /** Lines that found no room or could not be written, since the start. */
  get lost(): number {
    return this.each.reduce((sum, ring) => sum + ring.lost, 0);
  }

  /** True: the writer must be woken; false: it has been, and has not come yet. */
  call(): boolean {
    return Atomics.exchange(this.#words, CALLED, 1) === 0;
  }

  /** Writer: before it looks into the rings. */
  answer(): void {
    Atomics.store(this.#words, CALLED, 0);
  }
}

/** One thread puts in, one takes out. */
export class LogRing {
  readonly #words: Int32Array;
  readonly #bytes: Uint8Array;

  constructor(memory: SharedArrayBuffer, index: number) {
    const start = HEADER_BYTES + index * (RING_HEADER_BYTES + RING_BYTES);
    this.#words = new Int32Array(memory, start, RING_HEADER_BYTES / 4);
    this.#bytes = new Uint8Array(memory, start + RING_HEADER_BYTES, RING_BYTES);
  }

  get isEmpty(): boolean {
    return this.#used() === 0;
  }

  get lost(): number {
    return Atomics.load(this.#words, LOST) >>> 0;
  }

  /** Takes a whole line, or counts it as lost. */
  put(line: Uint8Array): void {
    if (line.length > RING_BYTES - this.#used()) return this.lose(1);
    const head = Atomics.load(this.#words, HEAD);
    const at = head & (RING_BYTES - 1);
    const first = Math.min(line.length, RING_BYTES - at);
    this.#bytes.set(line.subarray(0, first), at);
    this.#bytes.set(line.subarray(first), 0);
    Atomics.store(this.#words, HEAD, (head + line.length) | 0);
  }

  lose(lines: number): void {
    Atomics.add(this.#words, LOST, lines);
  }

  /** Copies the oldest bytes into `into`; how many. They stay until {@link drop}. */
  peek(into: Uint8Array): number {
    const length = Math.min(into.length, this.#used());
    const at = Atomics.load(this.#words, TAIL) & (RING_BYTES - 1);
    const first = Math.min(length, RING_BYTES - at);
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
