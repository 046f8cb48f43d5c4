/**
 * `/explain`: what the data paths say would become of a request, as one answer that may be shown.
 *
 * @module
 */

import {
  type Explained,
  type Explanation,
  PLAIN_PLUGINS,
  type Question,
  type SplitView,
  type TargetView,
} from "../proxy/mod.ts";
import { NOT_SHOWN } from "./redact.ts";

/** Of all data paths together. */
export interface Shown extends Omit<Explanation, "splits"> {
  /** Data paths that answered. */
  readonly workers: number;
  readonly splits: readonly ShownSplit[];
}

export interface ShownSplit extends Omit<SplitView, "targets"> {
  readonly targets: readonly ShownTarget[];
}

interface ShownTarget extends Omit<TargetView, "endpoints"> {
  readonly endpoints: readonly ShownEndpoint[];
}

/** What most data paths would not say is said by the one that saw most. */
export type ShownEndpoint = TargetView["endpoints"][number] & {
  /** Data paths that leave it out now, since it failed them. */
  readonly ejectedBy: number;
};

type Refused = Exclude<Explained, { readonly kind: "answer" }>;

/** `/explain?upstream=db&method=GET&path=/a`. */
export function questionOf(
  query: (name: string) => string | undefined,
  headers: readonly string[],
): Question {
  const listener = query("listener");
  const upstream = query("upstream");
  return {
    to: listener !== undefined
      ? { kind: "listener", name: listener }
      : upstream !== undefined
      ? { kind: "upstream", name: upstream }
      : { kind: "inbound" },
    source: query("source") ?? "",
    method: query("method") ?? "GET",
    host: query("host") ?? upstream ?? "",
    path: query("path") ?? "/",
    headers,
  };
}

/** All decide alike; an endpoint may have failed one and not another. `undefined`: nobody answered. */
export function mergeExplained(all: readonly Explained[]): Shown | Refused | undefined {
  const [first] = all;
  if (first?.kind !== "answer") return first;
  const explanations = all.flatMap((each) => each.kind === "answer" ? [each.explanation] : []);
  const { plugins, splits, ...rest } = first.explanation;
  return {
    ...rest,
    workers: explanations.length,
    plugins: plugins.map(({ config, routeConfig, ...plugin }, at) => ({
      ...plugin,
      isBroken: explanations.some((each) => each.plugins[at]?.isBroken),
      config: shownConfig(plugin.name, config),
      routeConfig: shownConfig(plugin.name, routeConfig),
    })),
    splits: splits.map((split, leg) => ({
      ...split,
      plugins: Object.fromEntries(
        Object.entries(split.plugins).map(([name, config]) => [name, shownConfig(name, config)]),
      ),
      targets: split.targets.map((target, at) =>
        mergeTarget(target, explanations.flatMap((each) => each.splits[leg]?.targets[at] ?? []))
      ),
    })),
  };
}

function mergeTarget(first: TargetView, all: readonly TargetView[]): ShownTarget {
  const endpoints = first.endpoints.map((endpoint) => {
    const seen = all.flatMap((each) =>
      each.endpoints.filter(({ id, address }) => id === endpoint.id && address === endpoint.address)
    );
    return {
      ...endpoint,
      active: seen.reduce((sum, { active }) => sum + active, 0),
      failures: Math.max(...seen.map(({ failures }) => failures)),
      ejectedForMs: Math.max(...seen.map(({ ejectedForMs }) => ejectedForMs)),
      ejectedBy: seen.filter(({ ejectedForMs }) => ejectedForMs > 0).length,
    };
  });
  return { ...first, endpoints };
}

/** What a plugin is told may be a key, under whatever name: of others texts are not shown. */
function shownConfig(name: string, config: unknown): unknown {
  return PLAIN_PLUGINS.has(name) ? config : withoutTexts(config);
}

function withoutTexts(value: unknown): unknown {
  if (typeof value === "string") return NOT_SHOWN;
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(withoutTexts);
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, withoutTexts(each)]));
}
