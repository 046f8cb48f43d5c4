/**
 * Places for connections. A place is reserved before the handshake and given back at the end, so that
 * load is refused where it is cheapest. Counts are shared by all workers of the process: each has a row
 * of its own in shared memory, and a limit looks at the sum.
 *
 * @module
 */

/** Things that can be limited: the process, the inbound listener, each upstream twice. */
export const MAX_LIMITED = 4_096;

/** Column of the process-wide limit. */
export const PROCESS_COLUMN = 0;

export class SharedCounts {
  readonly memory: SharedArrayBuffer;
  readonly #cells: Int32Array;
  readonly #rows: number;

  /** @param memory From {@link SharedCounts.create}, the same for all workers. */
  constructor(memory: SharedArrayBuffer) {
    this.memory = memory;
    this.#cells = new Int32Array(memory);
    this.#rows = this.#cells.length / MAX_LIMITED;
  }

  static create(rows: number): SharedCounts {
    return new SharedCounts(new SharedArrayBuffer(rows * MAX_LIMITED * 4));
  }

  add(row: number, column: number, amount: number): void {
    Atomics.add(this.#cells, row * MAX_LIMITED + column, amount);
  }

  total(column: number): number {
    let sum = 0;
    for (let row = 0; row < this.#rows; row++) {
      sum += Atomics.load(this.#cells, row * MAX_LIMITED + column);
    }
    return sum;
  }

  /** Forgets what a worker held that died. */
  clearRow(row: number): void {
    this.#cells.fill(0, row * MAX_LIMITED, (row + 1) * MAX_LIMITED);
  }
}

/** One limit as one worker sees it. */
export class Limiter {
  readonly #counts: SharedCounts;
  readonly #row: number;
  readonly #column: number;
  /** Places in all; `Infinity`: no limit. Changed live. */
  limit: number;

  constructor(
    counts: SharedCounts,
    options: { readonly row: number; readonly column: number; readonly limit: number },
  ) {
    this.#counts = counts;
    this.#row = options.row;
    this.#column = options.column;
    this.limit = options.limit;
  }

  /** True: a place is taken, and {@link Limiter.leave} must follow. */
  enter(): boolean {
    // Taken first and given back when it was too much, so that two workers never both see room.
    this.#counts.add(this.#row, this.#column, 1);
    if (this.#counts.total(this.#column) <= this.limit) return true;
    this.leave();
    return false;
  }

  leave(): void {
    this.#counts.add(this.#row, this.#column, -1);
  }

  get taken(): number {
    return this.#counts.total(this.#column);
  }
}
