/**
 * Memory that plugins of all workers share for counters. It is kept until the process ends, since a worker
 * that uses it may die; so its amount is limited.
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
