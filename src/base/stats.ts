/** Counters, gauges, histograms. A handle is resolved once: hot paths touch one number. @module */

import type { TrafficCounts, TrafficExemplars } from "./traffic_row.ts";

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
  /** For a histogram only: numbers of values in each bucket of `boundsMs`, and above all of them. */
  readonly counts?: readonly number[];
  /** Inclusive upper bounds; default: `BUCKETS_MS`. */
  readonly boundsMs?: readonly number[];
  /** For a histogram only: the same values in finer buckets, for a native histogram. */
  readonly fine?: TrafficCounts;
  /** For a histogram only: one value with its trace for each of `counts`, where there is one. */
  readonly exemplars?: TrafficExemplars;
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
        const sample = { name, kind, help, labels, value: cell.value };
        samples.push(cell instanceof HistogramCell ? { ...sample, counts: cell.counts } : sample);
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

export function addSamples<S extends Pick<Sample, "value" | "counts">>(a: S, b: S): S {
  const value = a.value + b.value;
  const { counts } = b;
  if (!a.counts || !counts) return { ...a, value };
  return { ...a, value, counts: a.counts.map((count, bucket) => count + (counts[bucket] ?? 0)) };
}

function keyOf(labels: Labels): string {
  return JSON.stringify(Object.entries(labels).sort(([a], [b]) => a < b ? -1 : 1));
}

/** Inclusive upper bounds in ms; one more bucket has the values above all. */
export const BUCKETS_MS: readonly number[] = [
  0.5,
  1,
  5,
  10,
  25,
  50,
  100,
  250,
  500,
  1_000,
  2_500,
  5_000,
  10_000,
  30_000,
  60_000,
  300_000,
  600_000,
  1_800_000,
  3_600_000,
];

const MICROS = 1_000;
/** Above it the sum of a few hundred could not be exact any more. */
const MOST_MS = 2 ** 32;

export interface Histogram {
  /** A negative value or NaN counts as 0. */
  observe(ms: number): void;
}

class HistogramCell implements Histogram {
  readonly #counts = new Float64Array(BUCKETS_MS.length + 1);
  /** In whole microseconds: adding fractions would add their errors, too. */
  #sumMicros = 0;

  observe(ms: number): void {
    const taken = ms > 0 ? Math.min(ms, MOST_MS) : 0;
    let bucket = 0;
    while (taken > (BUCKETS_MS[bucket] ?? Infinity)) bucket++;
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.#sumMicros += Math.round(taken * MICROS);
  }

  get value(): number {
    return this.#sumMicros / MICROS;
  }

  get counts(): readonly number[] {
    return Array.from(this.#counts);
  }
}

/** Numbers of values in each bucket or below it: the form of Prometheus. */
export function cumulative(counts: readonly number[]): readonly number[] {
  let sum = 0;
  return counts.map((count) => sum += count);
}

/**
 * Prometheus text exposition format 0.0.4; every name gets the prefix. A name that ends in `_ms` is shown
 * in seconds, Prometheus' unit, with `_seconds` in its place.
 */
export function formatPrometheus(samples: readonly Sample[], prefix = "postern_"): string {
  return formatFamilies(familiesOf(samples, prefix));
}

export function formatFamilies(families: readonly MetricFamily[]): string {
  return families.map(({ name, help, kind, list, divisor }) =>
    `# HELP ${name} ${escapeText(help)}\n# TYPE ${name} ${kind}\n` +
    list.map((sample) => linesOf(name, sample, divisor)).join("")
  ).join("");
}

/** Samples of one name, as Prometheus has them. */
export interface MetricFamily extends Pick<Sample, "kind" | "help"> {
  /** With its prefix and in Prometheus' unit. */
  readonly name: string;
  readonly list: readonly Sample[];
  /** Values and bounds are to be divided by it. */
  readonly divisor: number;
}

/** In the order of their names. */
export function familiesOf(samples: readonly Sample[], prefix: string): readonly MetricFamily[] {
  const byName = [...Map.groupBy(samples, (sample) => sample.name)];
  return byName.sort(([a], [b]) => a < b ? -1 : 1).map(([own, list]) => {
    const isMs = own.endsWith("_ms");
    const name = `${prefix}${isMs ? own.replace(/_ms$/, "_seconds") : own}`;
    const { help = "", kind = "gauge" } = list[0] ?? {};
    const shown = isMs ? help.replace(/^Milliseconds/, "Seconds") : help;
    return { name, help: shown, kind, list, divisor: isMs ? MS_PER_SECOND : 1 };
  });
}

const MS_PER_SECOND = 1_000;

/** The lines of one sample. `exemplarOf`: the text behind the line of a bucket. */
export function linesOf(
  name: string,
  { labels, value, counts, boundsMs = BUCKETS_MS }: Sample,
  divisor: number,
  exemplarOf: (bucket: number) => string = () => "",
): string {
  const pairs = Object.entries(labels).map(([key, label]) => `${key}="${escapeLabel(label)}"`);
  if (!counts) return line(name, pairs, value / divisor);
  const upTo = cumulative(counts);
  const buckets = upTo.map((count, bucket) => {
    const bound = boundsMs[bucket];
    const le = `le="${bound === undefined ? "+Inf" : bound / divisor}"`;
    return line(`${name}_bucket`, [...pairs, le], count, exemplarOf(bucket));
  });
  return buckets.join("") + line(`${name}_sum`, pairs, value / divisor) +
    line(`${name}_count`, pairs, upTo.at(-1) ?? 0);
}

function line(name: string, pairs: readonly string[], value: number, after = ""): string {
  return `${name}${pairs.length ? `{${pairs.join(",")}}` : ""} ${numberText(value)}${after}\n`;
}

export function escapeLabel(value: string): string {
  return escapeText(value).replace(/"/g, '\\"');
}

function escapeText(text: string): string {
  return text.replace(/\\/g, "\\\\").replace(/\n/g, "\\n");
}

function numberText(value: number): string {
  return Number.isFinite(value) ? String(value) : value > 0 ? "+Inf" : value < 0 ? "-Inf" : "NaN";
}
