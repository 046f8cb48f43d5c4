/** Handles of the metrics in a table, resolved once for some labels, removed together. @module */

import type { Counter, Gauge, Histogram, Labels, Stats } from "../../base/mod.ts";

interface Handles {
  readonly counter: Counter;
  readonly gauge: Gauge;
  readonly histogram: Histogram;
}

export type MetricTable = Readonly<
  Record<string, readonly [kind: keyof Handles, name: string, help: string]>
>;

export type MetricHandles<T extends MetricTable> = { readonly [K in keyof T]: Handles[T[K][0]] };

export function metricsOf<T extends MetricTable>(
  stats: Stats,
  table: T,
  labels: Labels,
): MetricHandles<T> {
  const all = Object.entries(table).map(([key, [kind, name, help]]) => [
    key,
    stats[kind](name, help, labels),
  ]);
  return Object.fromEntries(all) as MetricHandles<T>;
}

export function removeMetrics(stats: Stats, table: MetricTable, labels: Labels): void {
  for (const [, name] of Object.values(table)) stats.remove(name, labels);
}

/** Counters of one metric by labels whose values are not known beforehand. */
export class SpreadCounters {
  readonly #stats: Stats;
  readonly #row: readonly [name: string, help: string];
  readonly #labels: Labels;
  readonly #cells = new Map<string | number, { readonly counter: Counter; readonly own: Labels }>();

  constructor(stats: Stats, row: readonly [name: string, help: string], labels: Labels) {
    this.#stats = stats;
    this.#row = row;
    this.#labels = labels;
  }

  get size(): number {
    return this.#cells.size;
  }

  known(key: string | number): Counter | undefined {
    return this.#cells.get(key)?.counter;
  }

  of(key: string | number, labels: Labels): Counter {
    const known = this.known(key);
    if (known) return known;
    const own = { ...this.#labels, ...labels };
    const counter = this.#stats.counter(...this.#row, own);
    this.#cells.set(key, { counter, own });
    return counter;
  }

  forget(): void {
    for (const { own } of this.#cells.values()) this.#stats.remove(this.#row[0], own);
    this.#cells.clear();
  }
}

/** Counts the end of a connection or request. */
export function countEnding(endings: SpreadCounters, outcome: string, endedBy: string): void {
  const key = `${outcome} ${endedBy}`;
  (endings.known(key) ?? endings.of(key, { outcome, ended_by: endedBy })).add(1);
}

/** The counters of each cluster behind a listener. */
export class ClusterCounters<C extends { forget(): void }> {
  readonly #make: (cluster: string) => C;
  readonly #made = new Map<string, C>();

  constructor(make: (cluster: string) => C) {
    this.#make = make;
  }

  of(cluster: string): C {
    let counters = this.#made.get(cluster);
    if (!counters) this.#made.set(cluster, counters = this.#make(cluster));
    return counters;
  }

  /** Removes the counters of clusters that the listener does not lead to any more. */
  keepClusters(names: ReadonlySet<string>): void {
    for (const [name, counters] of this.#made) {
      if (names.has(name)) continue;
      this.#made.delete(name);
      counters.forget();
    }
  }
}
