/**
 * Lines on their way from the threads that log to the one that writes them: one ring of bytes per
 * thread, in shared memory. Who logs never waits; a line that finds no room is counted.
 *
 * @module
 */

/** Words that all rings share: a count of calls, a count of rounds of the writer, who writes. */
const BELL = 0;
const ROUNDS = 1;
const OWNER = 2;
const HEADER_BYTES = 16;
/** Words of one ring: bytes ever put in, bytes ever taken out (both run over), lines lost. */
const HEAD = 0;
const TAIL = 1;
const LOST = 2;
const RING_HEADER_BYTES = 16;
/** About a thousand lines is what a reader may fall behind. A power of two: see HEAD. */
const RING_BYTES = 1 << 18;

/** Who takes lines out: nobody yet, the thread for it, or the main thread at its end. */
export const OWNERS = { nobody: 0, writer: 1, main: 2 } as const;

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

  /** Calls the writer. */
  ring(): void {
    Atomics.add(this.#words, BELL, 1);
    Atomics.notify(this.#words, BELL);
  }

  /** True for the first who asks. */
  take(owner: number): boolean {
    const before = Atomics.compareExchange(this.#words, OWNER, OWNERS.nobody, owner);
    return before === OWNERS.nobody;
  }

  /** The writer is gone; another may come. */
  release(): void {
    Atomics.store(this.#words, OWNER, OWNERS.nobody);
  }

  /** Writer: what {@link waitForCall} is to be given, read before it looks into the rings. */
  get calls(): number {
    return Atomics.load(this.#words, BELL);
  }

  /** Writer: sleeps until somebody has called since `calls` was read. */
  waitForCall(calls: number): void {
    Atomics.wait(this.#words, BELL, calls);
  }

  /** Writer: all that it found is written. */
  endRound(): void {
    Atomics.add(this.#words, ROUNDS, 1);
    Atomics.notify(this.#words, ROUNDS);
  }

  /** Waits until the writer has written everything, at most `timeoutMs`; the thread stands still. */
  waitUntilEmpty(timeoutMs: number, now: () => number): void {
    const endMs = now() + timeoutMs;
    for (;;) {
      const rounds = Atomics.load(this.#words, ROUNDS);
      const leftMs = endMs - now();
      if (this.isEmpty || leftMs <= 0) return;
      Atomics.wait(this.#words, ROUNDS, rounds, leftMs);
    }
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
