/** `/stats`: metrics under Postern's names, and under Envoy's where Envoy has them. @module */

import {
  BUCKETS_MS,
  type Clock,
  cumulative,
  familiesOf,
  type MetricFamily,
  type Sample,
} from "../base/mod.ts";
import { envoyHelp } from "./envoy/envoy_names.ts";
import { configuredLabels, envoyFacts, sourceLabels } from "./envoy/envoy_facts.ts";
import { envoyStats, segment } from "./envoy/envoy_stats.ts";
import type { MergedView } from "./merge.ts";
import {
  HISTOGRAM_FORMS,
  type HistogramForm,
  histogramsJson,
  histogramText,
} from "./histograms.ts";
import { lines } from "./redact.ts";
import type { AdminView } from "./view.ts";

const FILTER_LIMIT_CHARS = 1_000;
const FILTER_LIMIT_STEPS = 2_000;
/** Limit for all lines together: the filter blocks the thread. */
const FILTER_LIMIT_MS = 500;
/** The version of a secret that has not arrived; Envoy has no series for it. */
const NEVER = "uninitialized";

/** Accepts a statistic's line in the text format, up to its value. */
export type LineFilter = (line: string) => boolean;

/** Envoy's `filter`: a regex, searched in name and labels. `undefined`: it does not compile. */
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
    // Not a regular expression; the response reports it.
    return undefined;
  }
}

export interface WantedStats {
  readonly filter: LineFilter;
  readonly kind: Sample["kind"] | "all";
  /** Only statistics that were written at least once, as in Envoy. */
  readonly usedOnly: boolean;
  readonly histograms: HistogramForm;
}

const EVERYTHING: WantedStats = {
  filter: () => true,
  kind: "all",
  usedOnly: false,
  histograms: "quantiles",
};

const KINDS: Readonly<Record<string, WantedStats["kind"]>> = {
  All: "all",
  Counters: "counter",
  Gauges: "gauge",
  Histograms: "histogram",
};

/** `?filter=`, `?type=`, `?usedonly` and `?histogram_buckets=`; or which of them cannot be read. */
export async function readWanted(
  query: (name: string) => string | undefined,
  clock: Clock,
): Promise<WantedStats | { readonly name: string; readonly want: string }> {
  const filter = await lineFilter(query("filter") ?? "", clock);
  if (!filter) return { name: "filter", want: "a regex (RE2's language)" };
  const type = query("type") ?? "All";
  const kind = Object.hasOwn(KINDS, type) ? KINDS[type] : undefined;
  if (kind === undefined) return { name: "type", want: Object.keys(KINDS).join(", ") };
  const form = query("histogram_buckets") ?? "none";
  const histograms = Object.hasOwn(HISTOGRAM_FORMS, form) ? HISTOGRAM_FORMS[form] : undefined;
  if (histograms === undefined) {
    return { name: "histogram_buckets", want: Object.keys(HISTOGRAM_FORMS).join(", ") };
  }
  return { filter, kind, usedOnly: query("usedonly") !== undefined, histograms };
}

type Measured = Pick<Sample, "kind" | "value" | "counts" | "boundsMs">;

/** The chosen statistics in each format; a format is made when it is called. */
export function statsPages(
  view: AdminView,
  merged: MergedView,
  wanted: WantedStats = EVERYTHING,
): { text(): string; json(): unknown; postern(): unknown; prometheus(): readonly MetricFamily[] } {
  const isWanted = (line: string, { kind, value, counts }: Measured) =>
    (wanted.kind === "all" || wanted.kind === kind) &&
    !(wanted.usedOnly && value === 0 && !counts?.some((count) => count > 0)) &&
    wanted.filter(line);
  const own = merged.samples.map((sample) => ({ ...sample, line: lineOf(sample) }))
    .filter((sample) => isWanted(sample.line, sample));
  const envoys = envoyStats(merged.samples, envoyFacts(view, merged))
    .map((stat) => ({ ...stat, line: stat.name })).filter((stat) => isWanted(stat.name, stat));
  const all = [...own, ...envoys];
  return {
    // One line per number, sorted: `name{label="value"}: 7` for ours, `dotted.name: 7` for Envoy's.
    text() {
      const versions = wanted.kind !== "all" ? [] : view.secretsReport().statuses
        .map(({ name, version }) => [`sds.${segment(name)}.version_text`, version] as const)
        .filter(([name]) => wanted.filter(name))
        .map(([name, version]) => `${name}: ${JSON.stringify(version === NEVER ? "" : version)}`);
      const numbers = all.map((stat) => `${stat.line}: ${valueText(stat, wanted.histograms)}`);
      return lines([...new Set([...numbers, ...versions])].sort());
    },
    // Envoy's form: counters and gauges by name, and one entry for all histograms.
    json() {
      const numbers = all.filter(({ counts }) => !counts)
        .map(({ line: name, value }) => ({ name, value }));
      const named = all.flatMap(({ line: name, ...stat }: Measured & { readonly line: string }) => {
        const { counts, boundsMs } = stat;
        return counts ? [{ name, histogram: { counts, boundsMs } }] : [];
      });
      if (named.length === 0) return { stats: numbers };
      return { stats: [...numbers, { histograms: histogramsJson(named, wanted.histograms) }] };
    },
    // Our form: each with its kind and labels, and histograms by bucket.
    postern: () => ({
      stats: all.map((stat) => ({ name: stat.name, labels: stat.labels, ...valueJson(stat) })),
    }),
    prometheus() {
      const labels = {
        ...sourceLabels(view.snapshot()),
        ...configuredLabels(view.source()?.metrics?.tags ?? []),
      };
      const samples = envoys.map(({ prometheus: name, ...stat }): Sample => ({
        ...stat,
        name,
        help: envoyHelp(name),
        labels: { ...stat.labels, ...labels },
      }));
      const [ours = [], standard = []] = [false, true].map((is) =>
        own.filter(({ name }) => name.startsWith("process_") === is)
      );
      return [
        ...familiesOf(ours, "postern_"),
        ...familiesOf(samples, "envoy_"),
        ...familiesOf(standard, ""),
      ];
    },
  };
}

function valueText({ value, counts, boundsMs }: Measured, form: HistogramForm): string {
  return counts ? histogramText({ counts, boundsMs }, form) : String(value);
}

/** A histogram's buckets are cumulative, as in Prometheus. */
function valueJson(
  { kind, value, counts, boundsMs = BUCKETS_MS }: Measured,
): Readonly<Record<string, unknown>> {
  if (!counts) return { kind, value };
  const upTo = cumulative(counts);
  const buckets = boundsMs.map((bound, bucket) => ({ up_to_ms: bound, count: upTo[bucket] }));
  return { kind, count: upTo.at(-1), sum_ms: value, buckets };
}

function lineOf({ name, labels }: Sample): string {
  const pairs = Object.entries(labels).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
  return pairs.length === 0 ? name : `${name}{${pairs.join(",")}}`;
}
