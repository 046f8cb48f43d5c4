/** The metrics of one plugin: their names, labels and number are bounded. @module */

import type { Counter, Gauge, Histogram, Stats as ProxyStats } from "../base/mod.ts";
import type { Stats } from "./api.ts";

const METRIC = /^[a-z][a-z0-9_]{0,63}$/;
const MAX_METRICS = 100;
const SUFFIXES = { counter: "_total", gauge: "", histogram: "_ms" } as const;

interface Cells {
  readonly counter: Counter;
  readonly gauge: Gauge;
  readonly histogram: Histogram;
}

interface About {
  readonly help: string;
  readonly labels?: Spec;
}
const MAX_CELLS = 1_000;

export function ownStats(plugin: string, stats: ProxyStats): Stats {
  const names = new Set<string>();
  const make = <Kind extends keyof Cells>(
    kind: Kind,
    name: string,
    { help, labels = {} }: About,
  ) => {
    if (!METRIC.test(name)) throw new TypeError(`metric ${JSON.stringify(name)}: not snake_case`);
    if (names.add(name).size > MAX_METRICS) {
      throw new RangeError(`more than ${MAX_METRICS} metrics`);
    }
    const all = combinations(labels);
    const whole = `plugin_${plugin}_${name}${SUFFIXES[kind]}`;
    const cells = new Map<string, unknown>(
      all.map((chosen) => [keyOf(labels, chosen), stats[kind](whole, help, chosen)]),
    );
    return (chosen: Readonly<Record<string, string>> = {}) => {
      const cell = cells.get(keyOf(labels, chosen));
      if (cell) return cell as Cells[Kind];
      throw new TypeError(`metric ${name}: no such label ${JSON.stringify(chosen)}`);
    };
  };
  return {
    counter(name, about) {
      const cellOf = make("counter", name, about);
      return { add: (count, ...[labels]) => cellOf(labels).add(count) };
    },
    gauge(name, about) {
      const cellOf = make("gauge", name, about);
      return {
        add: (count, ...[labels]) => cellOf(labels).add(count),
        set: (value, ...[labels]) => cellOf(labels).set(value),
      };
    },
    histogram(name, about) {
      const cellOf = make("histogram", name, about);
      return { observe: (ms, ...[labels]) => cellOf(labels).observe(ms) };
    },
  };
}

type Spec = Readonly<Record<string, readonly string[]>>;

function combinations(labels: Spec): Readonly<Record<string, string>>[] {
  let all: Record<string, string>[] = [{}];
  for (const [name, values] of Object.entries(labels)) {
    all = all.flatMap((chosen) => values.map((value) => ({ ...chosen, [name]: value })));
    if (all.length > MAX_CELLS) throw new RangeError(`labels: more than ${MAX_CELLS} combinations`);
  }
  return all;
}

function keyOf(labels: Spec, chosen: Readonly<Record<string, string>>): string {
  let key = "";
  for (const name in labels) key += `${chosen[name]}\0`;
  return key;
}
