/**
 * Counters and gauges. A handle is resolved once and then only added to, so the hot path touches one
 * number. Each worker has its own registry; {@link mergeStats} joins their samples when someone reads.
 *
 * @module
 */

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
  readonly kind: "counter" | "gauge";
  readonly help: string;
  readonly labels: Labels;
  readonly value: number;
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

interface Family {
  readonly kind: "counter" | "gauge";
  readonly help: string;
  readonly cells: Map<string, { readonly labels: Labels; readonly cell: Cell }>;
}

/** At most this many label sets per name; later ones share a cell labelled `overflow`. */
const CARDINALITY_LIMIT = 2_000;

export class Stats {
  readonly #families = new Map<string, Family>();

  /** Same name and labels give the same handle. `name` without prefix, e.g. `inbound_connections_total`. */
  counter(name: string, help: string, labels: Labels = {}): Counter {
    return this.#cell("counter", name, help, labels);
  }

  gauge(name: string, help: string, labels: Labels = {}): Gauge {
    return this.#cell("gauge", name, help, labels);
  }

  /** Forgets one label set, e.g. of an upstream that was removed. */
  remove(name: string, labels: Labels): void {
    this.#families.get(name)?.cells.delete(keyOf(labels));
  }

  samples(): Sample[] {
    const samples: Sample[] = [];
    for (const [name, { kind, help, cells }] of this.#families) {
      for (const { labels, cell } of cells.values()) {
        samples.push({ name, kind, help, labels, value: cell.value });
      }
    }
    return samples;
  }

  #cell(kind: "counter" | "gauge", name: string, help: string, labels: Labels): Cell {
    let family = this.#families.get(name);
    if (!family) this.#families.set(name, family = { kind, help, cells: new Map() });
    let key = keyOf(labels);
    let entry = family.cells.get(key);
    if (!entry) {
      if (family.cells.size >= CARDINALITY_LIMIT) {
        labels = { overflow: "true" };
        key = keyOf(labels);
        entry = family.cells.get(key);
      }
      if (!entry) family.cells.set(key, entry = { labels, cell: new Cell() });
    }
    return entry.cell;
  }
}

/** Sums samples with the same name and labels: what all workers did together. */
export function mergeStats(parts: readonly (readonly Sample[])[]): Sample[] {
  const merged = new Map<string, Sample>();
  for (const sample of parts.flat()) {
    const key = `${sample.name}\u0000${keyOf(sample.labels)}`;
    const seen = merged.get(key);
    merged.set(key, seen ? { ...seen, value: seen.value + sample.value } : sample);
  }
  return [...merged.values()];
}

/** Prometheus text exposition format 0.0.4; every name gets the prefix. */
export function formatPrometheus(samples: readonly Sample[], prefix = "postern_"): string {
  const byName = new Map<string, Sample[]>();
  for (const sample of samples) {
    const list = byName.get(sample.name);
    if (list) list.push(sample);
    else byName.set(sample.name, [sample]);
  }
  let text = "";
  for (const [name, list] of [...byName].sort(([a], [b]) => a < b ? -1 : 1)) {
    const first = list[0];
    if (!first) continue;
    text += `# HELP ${prefix}${name} ${
      escapeText(first.help)
    }\n# TYPE ${prefix}${name} ${first.kind}\n`;
    for (const { labels, value } of list) {
      const pairs = Object.entries(labels).map(([key, label]) => `${key}="${escapeLabel(label)}"`);
      text += `${prefix}${name}${pairs.length ? `{${pairs.join(",")}}` : ""} ${
        numberText(value)
      }\n`;
    }
  }
  return text;
}

function keyOf(labels: Labels): string {
  return JSON.stringify(Object.entries(labels).sort(([a], [b]) => a < b ? -1 : 1));
}

function escapeLabel(value: string): string {
  return escapeText(value).replace(/"/g, '\\"');
}

function escapeText(text: string): string {
  return text.replace(/\\/g, "\\\\").replace(/\n/g, "\\n");
}

function numberText(value: number): string {
  return Number.isFinite(value) ? String(value) : value > 0 ? "+Inf" : value < 0 ? "-Inf" : "NaN";
}
