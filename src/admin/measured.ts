/**
 * All data paths of a proxy as one, with what is measured of them.
 *
 * @module
 */

import { type MergedView, mergeViews } from "./merge.ts";
import { hide } from "./redact.ts";
import { statsPages } from "./stats.ts";
import type { AdminView } from "./view.ts";
import { upstreamSamples, upstreamTroubles } from "./upstream_troubles.ts";
import { type ListenerShown, usableSamples, withWarming } from "./warming.ts";

/** Of {@link metricsText}. */
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
  ];
  return { ...merged, samples: [...merged.samples, ...usable] };
}

/** For Prometheus, ending with a line break. */
export async function metricsText(view: AdminView): Promise<string> {
  return hide(statsPages(view, await measuredData(view)).prometheus(), view.secrets());
}
