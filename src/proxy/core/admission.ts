/**
 * Connection limits. Counts are shared by all workers of the process: each worker has a row in shared memory,
 * and a limit applies to the sum.
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";

/** Columns of the process, of inbound listeners, and of listeners of exposed paths. */
export const PROCESS_COLUMN = 0;
export const INBOUND_COLUMN = 1;
export const EXPOSED_COLUMN = 2;
/** The first column of upstreams. */
export const FIRST_UPSTREAM_COLUMN = 3;
/** Columns of an upstream: connections, attempts waiting to dial, open requests, HTTP callers. */
export const UPSTREAM_COLUMNS = 4;
/** Upstreams that can be counted at a time. */
export const MAX_UPSTREAMS = 8_191;

const COLUMNS = FIRST_UPSTREAM_COLUMN + UPSTREAM_COLUMNS * MAX_UPSTREAMS;

/** Maximum of the connections reserved for calls of the local application. */
const MOST_RESERVED = 1_024;

/** Callers of exposed paths are unauthenticated: enough for many health checks; the mesh keeps the rest. */
const MOST_EXPOSED = 256;

/** The places of `maxConnections` for callers of exposed paths. */
export function exposedPlaces(paths: number, maxConnections: number): number {
  if (paths === 0) return 0;
  return Math.min(MOST_EXPOSED, Math.max(1, Math.floor(maxConnections / 16)));
}

/** The places of `maxConnections` that callers of the service do not get. */
export function reservedFor(upstreams: number, maxConnections: number): number {
  return upstreams > 0 ? Math.min(MOST_RESERVED, Math.floor(maxConnections / 8)) : 0;
}

export class SharedCounts {
  readonly memory: SharedArrayBuffer;
  readonly #cells: Int32Array;
  readonly #rows: number;

  /** @param memory From {@link SharedCounts.create}, the same for all workers. */
  constructor(memory: SharedArrayBuffer) {
    this.memory = memory;
    this.#cells = new Int32Array(memory);
    this.#rows = this.#cells.length / COLUMNS;
  }

  static create(rows: number): SharedCounts {
    return new SharedCounts(new SharedArrayBuffer(rows * COLUMNS * 4));
  }

  add(row: number, column: number, amount: number): void {
    Atomics.add(this.#cells, row * COLUMNS + column, amount);
  }

  total(column: number): number {
    let sum = 0;
    for (let row = 0; row < this.#rows; row++) {
      sum += Atomics.load(this.#cells, row * COLUMNS + column);
    }
    return sum;
  }

  /** The count of one worker. */
  of(row: number, column: number): number {
    return Atomics.load(this.#cells, row * COLUMNS + column);
  }

  /** Throws for a row or column that does not exist. */
  check(row: number, column: number): void {
    const isCell = (at: number, count: number) => Number.isInteger(at) && at >= 0 && at < count;
    if (isCell(row, this.#rows) && isCell(column, COLUMNS)) return;
    throw new ProxyError(
      "internal",
      `Cannot count in row ${row}, column ${column}: there are ${this.#rows} by ${COLUMNS}`,
    );
  }

  /** Clears the counts of a worker that died. */
  clearRow(row: number): void {
    this.#cells.fill(0, row * COLUMNS, (row + 1) * COLUMNS);
  }
}

/** Places for the callers of a listener. */
export interface ConnectionLimiter {
  /** Read before the handshake; {@link ConnectionLimiter.enter} decides after it. */
  readonly full: boolean;
  /** True: a place is taken, and {@link ConnectionLimiter.leave} must follow for the same caller. */
  enter(remote: string): boolean;
  leave(remote: string): void;
}

/** One limit as one worker sees it. */
export class SharedLimiter implements ConnectionLimiter {
  readonly #counts: SharedCounts;
  readonly #row: number;
  readonly #column: number;
  /** All places; `Infinity`: no limit. It may change at any time. */
  limit: number;

  constructor(
    counts: SharedCounts,
    options: { readonly row: number; readonly column: number; readonly limit: number },
  ) {
    counts.check(options.row, options.column);
    this.#counts = counts;
    this.#row = options.row;
    this.#column = options.column;
    this.limit = options.limit;
  }

  /** True: a place is taken, and {@link SharedLimiter.leave} must follow. */
  enter(): boolean {
    // Count first and undo above the limit, so that two workers never both take the last place.
    this.#counts.add(this.#row, this.#column, 1);
    if (this.#counts.total(this.#column) <= this.limit) return true;
    this.leave();
    return false;
  }

  leave(): void {
    this.#counts.add(this.#row, this.#column, -1);
  }

  /** Read before the handshake; {@link SharedLimiter.enter} decides after it. */
  get full(): boolean {
    return this.taken >= this.limit;
  }

  get taken(): number {
    return this.#counts.total(this.#column);
  }

  /** Places taken by this worker. */
  get own(): number {
    return this.#counts.of(this.#row, this.#column);
  }
}
