/**
 * `/stats`: our numbers under our names, and under Envoy's where Envoy has such a number.
 *
 * @module
 */

import { BUCKETS_MS, type Clock, cumulative, formatPrometheus, type Sample } from "../base/mod.ts";
import { envoyHelp } from "./envoy/envoy_help.ts";
import { envoyFacts, sourceLabels } from "./envoy/envoy_facts.ts";
import { type EnvoyStat, envoyStats, segment } from "./envoy/envoy_stats.ts";
import { configuredLabels } from "./envoy/tags.ts";
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

/** Which statistics are asked for. */
export interface WantedStats {
  readonly filter: LineFilter;
  /** `undefined`: of any kind. */
  readonly kind: Sample["kind"] | "all";
  /** Only those that were ever written, as Envoy has it. */
  readonly usedOnly: boolean;
}

const KINDS = {
  All: "all",
  Counters: "counter",
  Gauges: "gauge",
  Histograms: "histogram",
} as const;
export const STAT_TYPES: readonly string[] = Object.keys(KINDS);

/** `?type=`; `undefined`: there is none such. */
export function typeOfStats(type: string): WantedStats["kind"] | undefined {
  return Object.entries(KINDS).find(([name]) => name === type)?.[1];
}

function isWanted(
  line: string,
  { kind, value, counts }: Measured,
  wanted: WantedStats,
): boolean {
  if (wanted.kind !== "all" && wanted.kind !== kind) return false;
  if (wanted.usedOnly && value === 0 && !counts?.some((count) => count > 0)) return false;
  return wanted.filter(line);
}

/** Ours, by the lines that {@link statsText} writes, and Envoy's. */
function chosen(
  view: AdminView,
  merged: MergedView,
  wanted: WantedStats,
): readonly (Measured & { readonly name: string })[] {
  const own = merged.samples.map((sample) => ({ ...sample, name: lineOf(sample) }));
  return [...own, ...envoysOf(view, merged)].filter((stat) => isWanted(stat.name, stat, wanted));
}

/** One line per number, sorted: `name{label="value"}: 7` for ours, `dotted.name: 7` for Envoy's. */
export function statsText(view: AdminView, merged: MergedView, wanted: WantedStats): string {
  const numbers = chosen(view, merged, wanted).map((stat) => `${stat.name}: ${valueText(stat)}`);
  const versions = wanted.kind !== "all" ? [] : view.secretsReport().statuses
    .map(({ name, version }) => [`sds.${segment(name)}.version_text`, version] as const)
    .filter(([name]) => wanted.filter(name))
    // Of what never came, Envoy says nothing here.
    .map(([name, version]) => `${name}: ${JSON.stringify(version === NEVER ? "" : version)}`);
  return lines([...new Set([...numbers, ...versions])].sort());
}

/** As Envoy has it: counters and gauges by name, and one entry for all histograms. */
export function statsJson(
  view: AdminView,
  merged: MergedView,
  wanted: WantedStats,
): Readonly<Record<string, unknown>> {
  const all = chosen(view, merged, wanted);
  const numbers = all.filter(({ counts }) => !counts).map(({ name, value }) => ({ name, value }));
  const histograms = all.filter(({ counts }) => counts).map(({ name, counts = [] }) => ({
    name,
    values: QUANTILES.map((quantile) => ({
      interval: null,
      cumulative: quantileMs(counts, quantile / 100),
    })),
  }));
  if (histograms.length === 0) return { stats: numbers };
  const shown = { supported_quantiles: QUANTILES, computed_quantiles: histograms };
  return { stats: [...numbers, { histograms: shown }] };
}

const QUANTILES = [0, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 100];

/** As Prometheus estimates it: evenly spread within a bucket; `null`: nothing was measured. */
function quantileMs(counts: readonly number[], quantile: number): number | null {
  const upTo = cumulative(counts);
  const total = upTo.at(-1) ?? 0;
  if (total === 0) return null;
  const rank = quantile * total;
  const bucket = upTo.findIndex((count) => count > 0 && count >= rank);
  const low = BUCKETS_MS[bucket - 1] ?? 0;
  const high = BUCKETS_MS[bucket] ?? low;
  const before = upTo[bucket - 1] ?? 0;
  const within = counts[bucket] ?? 0;
  return within === 0 ? low : low + (high - low) * Math.max(rank - before, 0) / within;
}

/** Each with its kind and labels, and histograms by bucket. */
export function ownStatsJson(
  view: AdminView,
  merged: MergedView,
  wanted: WantedStats,
): Readonly<Record<string, unknown>> {
  const own = merged.samples.filter((sample) => isWanted(lineOf(sample), sample, wanted))
    .map((sample) => ({ name: sample.name, labels: sample.labels, ...valueJson(sample) }));
  const envoys = envoysOf(view, merged).filter((stat) => isWanted(stat.name, stat, wanted))
    .map((stat) => ({ name: stat.name, labels: stat.labels, ...valueJson(stat) }));
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
  wanted: WantedStats = { filter: () => true, kind: "all", usedOnly: false },
): string {
  const whose = {
    ...sourceLabels(view.snapshot()),
    ...configuredLabels(view.source()?.metrics?.tags ?? []),
  };
  const envoys = envoysOf(view, merged).filter((stat) => isWanted(stat.name, stat, wanted)).map((
    { prometheus, labels, ...stat },
  ): Sample => ({
    ...stat,
    name: prometheus,
    help: envoyHelp(prometheus),
    labels: { ...labels, ...whose },
  }));
  const own = merged.samples.filter((sample) => isWanted(lineOf(sample), sample, wanted));
  return formatPrometheus(own) + formatPrometheus(envoys, "envoy_");
}

function envoysOf(view: AdminView, merged: MergedView): readonly EnvoyStat[] {
  return envoyStats(merged.samples, envoyFacts(view, merged));
}

function lineOf({ name, labels }: Sample): string {
  const pairs = Object.entries(labels).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
  return pairs.length === 0 ? name : `${name}{${pairs.join(",")}}`;
}
