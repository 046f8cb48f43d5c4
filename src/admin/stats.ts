/**
 * `/stats`: our numbers under our names, and under Envoy's where Envoy has such a number.
 *
 * @module
 */

import { BUCKETS_MS, type Clock, cumulative, formatPrometheus, type Sample } from "../base/mod.ts";
import { envoyFacts, sourceLabels } from "./envoy/envoy_facts.ts";
import { type EnvoyStat, envoyStats, segment } from "./envoy/envoy_stats.ts";
import type { MergedView } from "./merge.ts";
import { lines } from "./texts.ts";
import type { AdminView } from "./view.ts";

const FILTER_LIMIT_CHARS = 1_000;
const FILTER_LIMIT_STEPS = 2_000;
/** For all lines together: nothing else is done meanwhile. */
const FILTER_LIMIT_MS = 500;
/** The version of a secret that has not come. */
const NEVER = "uninitialized";

/** Of a statistic's line in {@link statsText}, up to its value. */
export type LineFilter = (line: string) => boolean;

/**
 * Envoy's `filter`: a regex, looked for anywhere in the name, which has in it what we have in labels.
 * `undefined`: it is none. Its engine takes time linear to the text, and is loaded when a text needs it.
 */
export async function lineFilter(text: string, clock: Clock): Promise<LineFilter | undefined> {
  if (/^[\w.:/-]*$/.test(text)) return (line) => line.includes(text);
  if (text.length > FILTER_LIMIT_CHARS) return undefined;
  const { RE2JS } = await import("re2js");
  try {
    const compiled = RE2JS.compile(text);
    if (compiled.programSize() > FILTER_LIMIT_STEPS) return undefined;
    const untilMs = clock.monotonic() + FILTER_LIMIT_MS;
    return (line) => {
      if (clock.monotonic() > untilMs) throw new Error("the filter takes too long");
      return compiled.matcher(line).find();
    };
  } catch {
    // Not a regex: whoever asked is told.
    return undefined;
  }
}

/** One line per number, sorted: `name{label="value"}: 7` for ours, `dotted.name: 7` for Envoy's. */
export function statsText(view: AdminView, merged: MergedView, wanted: LineFilter): string {
  const own = merged.samples.map((sample) => [lineOf(sample), sample] as const)
    .filter(([line]) => wanted(line))
    .map(([line, sample]) => `${line}: ${valueText(sample)}`);
  const envoys = envoysOf(view, merged).filter(({ name }) => wanted(name))
    .map((stat) => `${stat.name}: ${valueText(stat)}`);
  const versions = view.secretsReport().statuses
    .map(({ name, version }) => [`sds.${segment(name)}.version_text`, version] as const)
    .filter(([name]) => wanted(name))
    // Of what never came, Envoy says nothing here.
    .map(([name, version]) => `${name}: ${JSON.stringify(version === NEVER ? "" : version)}`);
  return lines([...new Set([...own, ...envoys, ...versions])].sort());
}

export function statsJson(
  view: AdminView,
  merged: MergedView,
  wanted: LineFilter,
): Readonly<Record<string, unknown>> {
  const own = merged.samples.filter((sample) => wanted(lineOf(sample)))
    .map((sample) => ({ name: sample.name, labels: sample.labels, ...valueJson(sample) }));
  const envoys = envoysOf(view, merged).filter(({ name }) => wanted(name))
    .map((stat) => ({ name: stat.name, labels: {}, ...valueJson(stat) }));
  return { stats: [...own, ...envoys] };
}

type Measured = Pick<Sample, "kind" | "value" | "counts">;

function valueText({ value, counts }: Measured): string {
  return counts ? `count=${cumulative(counts).at(-1)} sum_ms=${value}` : String(value);
}

/** Of a histogram how many were up to each bound, as Prometheus has it. */
function valueJson({ kind, value, counts }: Measured): Readonly<Record<string, unknown>> {
  if (!counts) return { kind, value };
  const upTo = cumulative(counts);
  const buckets = BUCKETS_MS.map((bound, bucket) => ({ up_to_ms: bound, count: upTo[bucket] }));
  return { kind, count: upTo.at(-1), sum_ms: value, buckets };
}

/** The same lines are meant by `wanted` as in the other forms. */
export function prometheusText(
  view: AdminView,
  merged: MergedView,
  wanted: LineFilter,
): string {
  const whose = sourceLabels(view.snapshot());
  const envoys = envoysOf(view, merged).filter(({ name }) => wanted(name)).map((
    { prometheus, labels, ...stat },
  ): Sample => ({
    ...stat,
    name: prometheus,
    help: "Under Envoy's name",
    labels: { ...labels, ...whose },
  }));
  const own = merged.samples.filter((sample) => wanted(lineOf(sample)));
  return formatPrometheus(own) + formatPrometheus(envoys, "envoy_");
}

function envoysOf(view: AdminView, merged: MergedView): readonly EnvoyStat[] {
  return envoyStats(merged.samples, envoyFacts(view, merged));
}

function lineOf({ name, labels }: Sample): string {
  const pairs = Object.entries(labels).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
  return pairs.length === 0 ? name : `${name}{${pairs.join(",")}}`;
}
