/**
 * Places for connections. Counts are shared by all workers of the process: each has a row of its own in
 * shared memory, and a limit looks at the sum.
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";

/** Column of the process-wide limit, of what inbound listeners hold, and listeners of exposed paths. */
export const PROCESS_COLUMN = 0;
export const INBOUND_COLUMN = 1;
export const EXPOSED_COLUMN = 2;
/** Where those of upstreams begin. */
export const FIRST_UPSTREAM_COLUMN = 3;
/** Columns of each upstream: its connections, what waits to be dialled, open requests, callers of HTTP. */
export const UPSTREAM_COLUMNS = 4;
/** Upstreams that can be counted at a time. */
export const MAX_UPSTREAMS = 8_191;

const COLUMNS = FIRST_UPSTREAM_COLUMN + UPSTREAM_COLUMNS * MAX_UPSTREAMS;

/** The most that is kept of the process's connections for calls that the local application makes. */
const MOST_RESERVED = 1_024;

/** Callers of exposed paths may be anybody: many checks have room, and the mesh keeps the rest. */
const MOST_EXPOSED = 256;

/** Of `maxConnections`, those that callers of exposed paths get. */
export function exposedPlaces(paths: number, maxConnections: number): number {
  if (paths === 0) return 0;
  return Math.min(MOST_EXPOSED, Math.max(1, Math.floor(maxConnections / 16)));
}

/** Of `maxConnections`, those that callers of the service do not get. */
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

  /** What one worker holds. */
  of(row: number, column: number): number {
    return Atomics.load(this.#cells, row * COLUMNS + column);
  }

  /** Fails where a count would be another worker's, or none. */
  check(row: number, column: number): void {
    const isCell = (at: number, count: number) => Number.isInteger(at) && at >= 0 && at < count;
    if (isCell(row, this.#rows) && isCell(column, COLUMNS)) return;
    throw new ProxyError(
      "internal",
      `Cannot count in row ${row}, column ${column}: there are ${this.#rows} by ${COLUMNS}`,
    );
  }

  /** Forgets what a worker held that died. */
  clearRow(row: number): void {
    this.#cells.fill(0, row * COLUMNS, (row + 1) * COLUMNS);
  }
}

/** Places for the callers of a listener. */
export interface ConnectionLimiter {
  /** Asked before a place is worth a handshake; {@link ConnectionLimiter.enter} decides. */
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
  /** Places in all; `Infinity`: no limit. Changed live. */
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
    // Taken first and given back when it was too much, so that two workers never both see room.
    this.#counts.add(this.#row, this.#column, 1);
    if (this.#counts.total(this.#column) <= this.limit) return true;
    this.leave();
    return false;
  }

  leave(): void {
    this.#counts.add(this.#row, this.#column, -1);
  }

  /** Asked before a place is worth a handshake; {@link SharedLimiter.enter} decides. */
  get full(): boolean {
    return this.taken >= this.limit;
  }

  get taken(): number {
    return this.#counts.total(this.#column);
  }

  /** How many of the places taken are this worker's. */
  get own(): number {
    return this.#counts.of(this.#row, this.#column);
  }
}
