/**
 * Which columns of the shared counts are whose. An upstream keeps its own for as long as anything can
 * count on them: until no worker listens for it any more and its last connection has ended.
 *
 * @module
 */

import {
  type Columns,
  FIRST_UPSTREAM_COLUMN,
  MAX_UPSTREAMS,
  type SharedCounts,
  UPSTREAM_COLUMNS,
} from "../../proxy/mod.ts";
import type { Snapshot } from "../../snapshot/mod.ts";

export class ColumnTable {
  readonly #counts: SharedCounts;
  readonly #columns = new Map<string, number>();
  /** No worker listens for them; connections may still be open. */
  readonly #leaving = new Set<string>();
  readonly #free: number[] = [];
  #used = 0;
  #latest: { readonly snapshot: Snapshot; readonly columns: Columns } | undefined;

  constructor(counts: SharedCounts) {
    this.#counts = counts;
  }

  /** Of all its upstreams; those that there is no room for are missing. */
  for(snapshot: Snapshot): Columns {
    // Every worker asks.
    if (this.#latest?.snapshot === snapshot) return this.#latest.columns;
    const columns: Record<string, number> = {};
    const ids = Object.keys(snapshot.upstreams);
    for (const id of ids) this.#leaving.delete(id);
    this.#takeBack();
    for (const id of ids) {
      const column = this.#columns.get(id) ?? this.#assign(id);
      if (column !== undefined) columns[id] = column;
    }
    this.#latest = { snapshot, columns };
    return columns;
  }

  /** To be told once all workers go by it and none is asked about another. */
  settled(snapshot: Snapshot): void {
    for (const id of this.#columns.keys()) {
      if (!snapshot.upstreams[id]) this.#leaving.add(id);
    }
    this.#takeBack();
  }

  #assign(id: string): number | undefined {
    const column = this.#free.pop() ??
      (this.#used < MAX_UPSTREAMS
        ? FIRST_UPSTREAM_COLUMN + UPSTREAM_COLUMNS * this.#used++
        : undefined);
    if (column !== undefined) this.#columns.set(id, column);
    return column;
  }

  #takeBack(): void {
    for (const id of this.#leaving) {
      const column = this.#columns.get(id);
      if (column === undefined || this.#isUsed(column)) continue;
      this.#leaving.delete(id);
      this.#columns.delete(id);
      this.#free.push(column);
    }
  }

  #isUsed(first: number): boolean {
    for (let i = 0; i < UPSTREAM_COLUMNS; i++) if (this.#counts.total(first + i) > 0) return true;
    return false;
  }
}
