/**
 * State of plugins that survives a reload of their configuration. The first user makes it; it is dropped with
 * the last. Memory that all workers share for counters is limited, and kept until the process ends, since a
 * worker that uses it may die.
 *
 * @module
 */

import { type Log, ProxyError } from "../base/mod.ts";

export interface CellsOptions {
  /** The next process of this proxy goes on with the contents. */
  readonly survivesUpgrade?: boolean;
}

/** Returns the same memory for the same key, to every worker. */
export type OpenSharedCells = (
  key: string,
  length: number,
  options?: CellsOptions,
) => Promise<SharedArrayBuffer>;

/** The contents of the cells of a key. */
export interface CellContents {
  readonly key: string;
  readonly bytes: Uint8Array;
}

const MAX_CELLS = 1 << 20;
/** Each key counts as at least so many cells, which bounds the number of keys. */
const LEAST_CELLS = 1 << 10;

export const SHARED_CELLS_LIMITS = { keys: MAX_CELLS / LEAST_CELLS, bytes: 4 * MAX_CELLS } as const;

export class SharedCells {
  readonly #lent = new Map<string, SharedArrayBuffer>();
  readonly #surviving = new Set<string>();
  /** Contents of the process before, until {@link goOn}. */
  #before: ReadonlyMap<string, Uint8Array>;
  #cells = 0;
  readonly #log: Log | undefined;

  /** `before`: contents of the process before. */
  constructor({ before = [], log }: {
    readonly before?: readonly CellContents[] | undefined;
    readonly log?: Log;
  } = {}) {
    this.#before = byKey(before);
    this.#log = log;
  }

  lend(
    key: string,
    length: number,
    { survivesUpgrade = false }: CellsOptions = {},
  ): SharedArrayBuffer {
    const lent = this.#lent.get(key);
    const isNumber = Number.isInteger(length) && length > 0;
    if (lent && isNumber && lent.byteLength === 4 * length) return lent;
    const counted = isNumber ? Math.max(length, LEAST_CELLS) : Infinity;
    if (lent || this.#cells + counted > MAX_CELLS) {
      const why = lent
        ? `there are ${lent.byteLength / 4}`
        : `${this.#cells} of ${MAX_CELLS} are lent already`;
      throw new ProxyError("plugin_failed", `Cannot lend ${length} cells for ${key}: ${why}`);
    }
    const memory = new SharedArrayBuffer(4 * length);
    this.#lent.set(key, memory);
    this.#cells += counted;
    if (!survivesUpgrade) return memory;
    this.#surviving.add(key);
    const before = this.#before.get(key);
    if (before?.length === memory.byteLength) new Uint8Array(memory).set(before);
    else if (before) {
      const sizes = { cells: length, before: before.length / 4 };
      this.#log?.warn("shared state of a plugin begins anew: its size differs", { key, ...sizes });
    }
    return memory;
  }

  /** Copies for the next process. */
  get surviving(): readonly CellContents[] {
    return [...this.#surviving].map((key) => {
      const memory = this.#lent.get(key) ?? new ArrayBuffer(0);
      return { key, bytes: new Uint8Array(memory).slice() };
    });
  }

  /** The last contents of the process before. What no plugin has asked for until now is dropped. */
  goOn(before: readonly CellContents[]): void {
    this.#before = new Map();
    for (const { key, bytes } of before) {
      const memory = this.#surviving.has(key) ? this.#lent.get(key) : undefined;
      if (memory?.byteLength === bytes.length) new Uint8Array(memory).set(bytes);
    }
  }
}

function byKey(contents: readonly CellContents[]): ReadonlyMap<string, Uint8Array> {
  return new Map(contents.map(({ key, bytes }) => [key, bytes]));
}

export interface WorkerIdentity {
  readonly worker: number;
  readonly workers: number;
  /** Default: there are no other workers. */
  readonly lendCells?: OpenSharedCells;
}

export class SharedState {
  readonly worker: { readonly index: number; readonly count: number };
  readonly #lendCells: OpenSharedCells;
  readonly #cells = new Map<string, Int32Array<SharedArrayBuffer>>();
  readonly #held = new Map<string, { readonly value: object; users: number }>();

  constructor({ worker, workers, lendCells }: WorkerIdentity = { worker: 0, workers: 1 }) {
    this.worker = { index: worker, count: workers };
    const own = new SharedCells();
    this.#lendCells = lendCells ?? (async (...asked) => await own.lend(...asked));
  }

  /** `isNewUser`: the caller calls {@link leave} once more. */
  use<T extends object>(key: string, make: () => T, isNewUser: boolean): T {
    let held = this.#held.get(key);
    if (!held) this.#held.set(key, held = { value: make(), users: 0 });
    if (isNewUser) held.users++;
    // The same key means the same code, or that of the generation before.
    return held.value as T;
  }

  leave(key: string): void {
    const held = this.#held.get(key);
    if (held && --held.users === 0) this.#held.delete(key);
  }

  /** The same array each time. Rejects if the limit is reached, or the key has another length. */
  async cells(
    key: string,
    length: number,
    options?: CellsOptions,
  ): Promise<Int32Array<SharedArrayBuffer>> {
    const known = this.#cells.get(key);
    if (known?.length === length) return known;
    const cells = new Int32Array(await this.#lendCells(key, length, options));
    // Two calls may have run at once.
    const first = this.#cells.get(key) ?? cells;
    this.#cells.set(key, first);
    return first;
  }
}
