/**
 * State of plugins that survives a reload of their configuration. The first user makes it; it is dropped with
 * the last. Memory that all workers share for counters is limited, and kept until the process ends, since a
 * worker that uses it may die.
 *
 * @module
 */

import { ProxyError } from "../base/mod.ts";

/** Returns the same memory for the same key, to every worker. */
export type OpenSharedCells = (key: string, length: number) => Promise<SharedArrayBuffer>;

const MAX_CELLS = 1 << 20;
/** Each key counts as at least so many cells, which bounds the number of keys. */
const LEAST_CELLS = 1 << 10;

export class SharedCells {
  readonly #lent = new Map<string, SharedArrayBuffer>();
  #cells = 0;

  lend(key: string, length: number): SharedArrayBuffer {
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
    return memory;
  }
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
    this.#lendCells = lendCells ?? (async (key, length) => await own.lend(key, length));
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
  async cells(key: string, length: number): Promise<Int32Array<SharedArrayBuffer>> {
    const known = this.#cells.get(key);
    if (known?.length === length) return known;
    const cells = new Int32Array(await this.#lendCells(key, length));
    // Two calls may have run at once.
    const first = this.#cells.get(key) ?? cells;
    this.#cells.set(key, first);
    return first;
  }
}
