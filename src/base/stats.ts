/**
 * Counters, gauges and histograms. A handle is resolved once and then only added to, so the hot path
 * touches one number. Each worker has its own registry; {@link mergeStats} joins their samples on a read.
 *
 * @module
 */

import { type Histogram, HistogramCell } from "./stats_histogram.ts";

export type Labels = Readonly<Record<string, string>>;

/** A number that only grows, or (gauge) goes up and down. */
export interface Counter {
  add(amount: number): void;
  readonly value: number;
}

export interface Gauge extends Counter {
  set(value: number): void;
}

export interface Sample {
  readonly name: string;
  readonly kind: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labels: Labels;
  /** For a histogram the sum of all values, in ms. */
  readonly value: number;
  /** For a histogram only: numbers of values in each bucket of `BUCKETS_MS`, and above all of them. */
  readonly counts?: readonly number[];
}

class Cell implements Gauge {
  value = 0;
  add(amount: number): void {
    this.value += amount;
  }
  set(value: number): void {
    this.value = value;
  }
}

interface Family<C = Cell | HistogramCell> {
  readonly kind: Sample["kind"];
  readonly help: string;
  readonly cells: Map<string, { readonly labels: Labels; readonly cell: C }>;
}

/** At most this many label sets per name; later ones share a cell labelled `overflow`. */
const CARDINALITY_LIMIT = 2_000;

export class Stats {
  readonly #families = new Map<string, Family>();

  /** Same name and labels give the same handle. `name` without prefix, e.g. `inbound_connections_total`. */
  counter(name: string, help: string, labels: Labels = {}): Counter {
    return cellOf(this.#family<Cell>("counter", name, help), labels, () => new Cell());
  }

  gauge(name: string, help: string, labels: Labels = {}): Gauge {
    return cellOf(this.#family<Cell>("gauge", name, help), labels, () => new Cell());
  }

  /** A histogram of durations in ms; the name must say so. */
  histogram(name: string, help: string, labels: Labels = {}): Histogram {
    const family = this.#family<HistogramCell>("histogram", name, help);
    return cellOf(family, labels, () => new HistogramCell());
  }

  /** Forgets one label set, as that of a removed upstream. */
  remove(name: string, labels: Labels): void {
    this.#families.get(name)?.cells.delete(keyOf(labels));
  }

  samples(): Sample[] {
    const samples: Sample[] = [];
    for (const [name, { kind, help, cells }] of this.#families) {
      for (const { labels, cell } of cells.values()) {
        const { value } = cell;
        samples.push({
          name,
          kind,
          help,
          labels,
          value,
          ...(cell instanceof HistogramCell ? { counts: cell.counts } : {}),
        });
      }
    }
    return samples;
  }

  /** Every name has one kind, at all its users. */
  #family<C extends Cell | HistogramCell>(
    kind: Sample["kind"],
    name: string,
    help: string,
  ): Family<C> {
    let family = this.#families.get(name);
    if (!family) this.#families.set(name, family = { kind, help, cells: new Map() });
    return family as Family<C>;
  }
}

function cellOf<C>({ cells }: Family<C>, labels: Labels, create: () => C): C {
  let key = keyOf(labels);
  let entry = cells.get(key);
  if (!entry) {
    if (cells.size >= CARDINALITY_LIMIT) {
      labels = { overflow: "true" };
      key = keyOf(labels);
      entry = cells.get(key);
    }
    if (!entry) cells.set(key, entry = { labels, cell: create() });
  }
  return entry.cell;
}

/** Sums samples with the same name and labels: the totals of all workers. */
export function mergeStats(parts: readonly (readonly Sample[])[]): Sample[] {
  const merged = new Map<string, Sample>();
  for (const sample of parts.flat()) {
    const key = `${sample.name}\u0000${keyOf(sample.labels)}`;
    const seen = merged.get(key);
    merged.set(key, seen ? addSamples(seen, sample) : sample);
  }
  return [...merged.values()];
}

/** Joins two samples of one name and label set. */
export function addSamples<S extends Pick<Sample, "value" | "counts">>(a: S, b: S): S {
  const value = a.value + b.value;
  const { counts } = b;
  if (!a.counts || !counts) return { ...a, value };
  return { ...a, value, counts: a.counts.map((count, bucket) => count + (counts[bucket] ?? 0)) };
}

function keyOf(labels: Labels): string {
  return JSON.stringify(Object.entries(labels).sort(([a], [b]) => a < b ? -1 : 1));
}
