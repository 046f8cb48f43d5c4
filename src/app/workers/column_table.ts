/** The columns of upstreams in the shared counts, given out and taken back. @module */

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
  /** Upstreams without listeners; connections may still be open. */
  readonly #leaving = new Set<string>();
  readonly #free: number[] = [];
  #used = 0;
  #latest: { readonly snapshot: Snapshot; readonly columns: Columns } | undefined;

  constructor(counts: SharedCounts) {
    this.#counts = counts;
  }

  /** Columns of all upstreams of `snapshot`, except those without room. */
  for(snapshot: Snapshot): Columns {
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

  /** Called once all workers use `snapshot` and no other is under way. */
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
