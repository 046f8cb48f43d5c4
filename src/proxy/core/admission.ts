/**
 * Connection limits. Counts are shared by all workers of the process: each worker has a row in shared memory, and
 * a limit applies to the sum. No single caller can use up all places of a fair limit.
 *
 * @module
 */

import { networkOf, ProxyError } from "../../base/mod.ts";

/** Columns of the process, of inbound listeners, and of listeners of exposed paths. */
export const PROCESS_COLUMN = 0;
export const INBOUND_COLUMN = 1;
export const EXPOSED_COLUMN = 2;
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

  of(row: number, column: number): number {
    return Atomics.load(this.#cells, row * COLUMNS + column);
  }

  /** Throws for a row or column that does not exist. */
  check(row: number, column: number): void {
    const isCell = (at: number, count: number) => Number.isInteger(at) && at >= 0 && at < count;
    if (isCell(row, this.#rows) && isCell(column, COLUMNS)) return;
    const cells = `there are ${this.#rows} by ${COLUMNS}`;
    throw new ProxyError("internal", `Cannot count in row ${row}, column ${column}: ${cells}`);
  }

  /** Clears the counts of a worker that died. */
  clearRow(row: number): void {
    this.#cells.fill(0, row * COLUMNS, (row + 1) * COLUMNS);
  }
}

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
    { row, column, limit }: {
      readonly row: number;
      readonly column: number;
      readonly limit: number;
    },
  ) {
    counts.check(row, column);
    this.#counts = counts;
    this.#row = row;
    this.#column = column;
    this.limit = limit;
  }

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

/** Callers without a place that are kept, so that a busy caller does not allocate an entry each time. */
const KEPT_CALLERS = 1_000;

class TakenPlaces {
  readonly #taken = new Map<string, { places: number }>();

  of(caller: string): number {
    return this.#taken.get(caller)?.places ?? 0;
  }

  add(caller: string): void {
    const taken = this.#taken.get(caller);
    if (taken) taken.places++;
    else this.#taken.set(caller, { places: 1 });
  }

  drop(caller: string): void {
    const taken = this.#taken.get(caller);
    if (taken && --taken.places === 0 && this.#taken.size > KEPT_CALLERS) {
      this.#taken.delete(caller);
    }
  }
}

/** A caller takes at most so many times the free places: alone 7/8 of all, fewer beside others. */
const SHARE_OF_FREE = 7;

/** Places of one worker for requests. A caller without a place gets one while any is free. */
export class FairRequestLimiter {
  readonly limit: number;
  #open = 0;
  readonly #taken = new TakenPlaces();

  constructor(limit: number) {
    this.limit = limit;
  }

  get full(): boolean {
    return this.#open >= this.limit;
  }

  /** `caller`: `""` is an unknown caller, which has no share. */
  enter(caller: string): boolean {
    const free = this.limit - this.#open;
    if (free <= 0) return false;
    if (caller !== "") {
      if (this.#taken.of(caller) >= SHARE_OF_FREE * free) return false;
      this.#taken.add(caller);
    }
    this.#open++;
    return true;
  }

  /** Called once for each place, with the same caller. */
  leave(caller: string): void {
    this.#open--;
    if (caller !== "") this.#taken.drop(caller);
  }
}

/** Places for connections of unauthenticated callers; no address takes more than half. */
export class FairConnectionLimiter implements ConnectionLimiter {
  readonly all: SharedLimiter;
  readonly #workers: number;
  /** Places in this worker, by address. */
  readonly #taken = new TakenPlaces();

  /** The kernel spreads the callers of one address over `workers`. */
  constructor(all: SharedLimiter, workers: number) {
    this.all = all;
    this.#workers = workers;
  }

  get full(): boolean {
    return this.all.full;
  }

  /** Places that one address has in this worker. */
  get share(): number {
    return Math.max(1, Math.floor(this.all.limit / 2 / this.#workers));
  }

  hasShare(remote: string): boolean {
    return this.#taken.of(networkOf(remote)) >= this.share;
  }

  enter(remote: string): boolean {
    if (this.hasShare(remote) || !this.all.enter()) return false;
    this.#taken.add(networkOf(remote));
    return true;
  }

  leave(remote: string): void {
    this.all.leave();
    this.#taken.drop(networkOf(remote));
  }
}
