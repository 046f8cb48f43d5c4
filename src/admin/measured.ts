/** All data paths of a proxy merged, with their measurements, for Prometheus and StatsD. @module */

import { formatFamilies, type Labels, type MetricFamily, type Sample } from "../base/mod.ts";
import { expose, type Exposition } from "./exposition.ts";
import {
  type ListenerShown,
  type MergedView,
  mergeViews,
  usableSamples,
  withWarming,
} from "./merge.ts";
import { hide } from "./redact.ts";
import { statsPages } from "./stats.ts";
import type { AdminView } from "./view.ts";
import { trafficSamples } from "./traffic_samples.ts";
import { endpointSamples, upstreamSamples, upstreamTroubles } from "./upstream_troubles.ts";
import { configuredTags, envoyFacts, sourceLabels } from "./envoy/envoy_facts.ts";
import { stateSamples } from "./envoy/server_state.ts";
import { envoyStats } from "./envoy/envoy_stats.ts";

/** Prometheus' text. */
export const METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8";

export async function shownData(
  view: AdminView,
): Promise<{ readonly merged: MergedView; readonly listeners: readonly ListenerShown[] }> {
  const merged = mergeViews(await view.data(), view.samples());
  return { merged, listeners: withWarming(merged.listeners, view.source()?.warming ?? []) };
}

export async function measuredData(view: AdminView): Promise<MergedView> {
  const { merged, listeners } = await shownData(view);
  const troubles = upstreamTroubles(view, merged.endpoints);
  const usable = [
    ...usableSamples(listeners),
    ...upstreamSamples(view, troubles),
    ...endpointSamples(merged.endpoints),
  ];
  const state = await stateSamples(view, merged.workers);
  return {
    ...merged,
    samples: [...merged.samples, ...usable, ...state, ...trafficSamples(merged.traffic)],
  };
}

/** Metrics in Prometheus' text, ending with a line break. */
export async function metricsText(view: AdminView): Promise<string> {
  return hide(formatFamilies(await metricFamilies(view)), view.secrets());
}

/** `accept`: the header of the request. */
export async function metricsPage(
  view: AdminView,
  accept: string | undefined,
): Promise<Exposition> {
  return await expose(await metricFamilies(view), { accept, hidden: view.secrets() });
}

async function metricFamilies(view: AdminView): Promise<readonly MetricFamily[]> {
  return statsPages(view, await measuredData(view)).prometheus();
}

/** The same metrics for other forms than text; no label holds a secret. */
export async function shownFamilies(view: AdminView): Promise<readonly MetricFamily[]> {
  const secrets = view.secrets();
  const families = await metricFamilies(view);
  if (secrets.length === 0) return families;
  const shown = (labels: Labels) =>
    Object.fromEntries(Object.entries(labels).map(([name, text]) => [name, hide(text, secrets)]));
  return families.map(({ list, ...family }) => ({
    ...family,
    list: list.map((sample) => ({ ...sample, labels: shown(sample.labels) })),
  }));
}

/** `POST /reset_counters`: the admin server's pages count from zero; other sinks do not. */
export class CounterReset {
  #before = new Map<string, number>();

  reset(samples: readonly Sample[]): void {
    const counters = samples.filter(({ kind }) => kind === "counter");
    this.#before = new Map(counters.map((sample) => [keyOf(sample), sample.value]));
  }

  since(samples: readonly Sample[]): readonly Sample[] {
    if (this.#before.size === 0) return samples;
    return samples.map((sample) => {
      const before = sample.kind === "counter" ? this.#before.get(keyOf(sample)) : undefined;
      // A worker that was started again counts from zero by itself.
      if (before === undefined || before > sample.value) return sample;
      return { ...sample, value: sample.value - before };
    });
  }
}

function keyOf({ name, labels }: { readonly name: string; readonly labels: Labels }): string {
  return JSON.stringify([name, labels]);
}

export interface SinkStat extends Pick<Sample, "kind" | "value" | "counts"> {
  /** Envoy's full name: `cluster.db.default...upstream_cx_total`. */
  readonly name: string;
  /** The name without the parts that are tags: `cluster.upstream_cx_total`. */
  readonly tagged: string;
  /** Under Envoy's and Consul's names: `envoy.cluster_name`, `consul.destination.service`. */
  readonly tags: Readonly<Record<string, string>>;
}

export async function sinkStats(view: AdminView): Promise<readonly SinkStat[]> {
  const merged = await measuredData(view);
  const source = sourceLabels(view.snapshot());
  const configured = configuredTags(view.source()?.metrics?.tags ?? []);
  return envoyStats(merged.samples, envoyFacts(view, merged)).map((stat) => {
    const { name, kind, value, counts, prometheus, labels } = stat;
    const { tagged = prometheus.replace("_", ".") } = stat;
    const tags = Object.entries({ ...labels, ...source })
      .map(([tag, text]) => [tagName(tag), text] as const);
    return {
      name,
      kind,
      value,
      tagged,
      ...(counts && { counts }),
      tags: { ...Object.fromEntries(tags), ...configured },
    };
  });
}

function tagName(label: string): string {
  return label.replace(/^envoy_/, "envoy.")
    .replace(/^consul_(destination|upstream|source)_/, "consul.$1.");
}
