/**
 * Samples in the text format of Prometheus.
 *
 * @module
 */

import type { Sample } from "./stats.ts";
import { BUCKETS_MS, cumulative } from "./stats_histogram.ts";

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
    for (const sample of list) text += linesOf(`${prefix}${name}`, sample);
  }
  return text;
}

function linesOf(name: string, { labels, value, counts }: Sample): string {
  const pairs = Object.entries(labels).map(([key, label]) => `${key}="${escapeLabel(label)}"`);
  if (!counts) return line(name, pairs, value);
  const upTo = cumulative(counts);
  const buckets = upTo.map((count, bucket) => {
    const bound = BUCKETS_MS[bucket];
    const le = `le="${bound === undefined ? "+Inf" : bound}"`;
    return line(`${name}_bucket`, [...pairs, le], count);
  });
  return buckets.join("") + line(`${name}_sum`, pairs, value) +
    line(`${name}_count`, pairs, upTo.at(-1) ?? 0);
}

function line(name: string, pairs: readonly string[], value: number): string {
  return `${name}${pairs.length ? `{${pairs.join(",")}}` : ""} ${numberText(value)}\n`;
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
