/** `/explain`: one answer of all data paths about a request, without anything secret. @module */

import {
  type ExplainResult,
  type Explanation,
  PLAIN_PLUGINS,
  type SplitView,
  type TargetView,
} from "../../proxy/mod.ts";
import { mergeFailures } from "../merge.ts";
import { NOT_SHOWN } from "../redact.ts";
import {
  type CalleeVerdict,
  type ExplainedSplit,
  type ExplainedTarget,
  type ExplainingProxy,
  type ExplanationView,
  nextCommands,
  verdictOf,
} from "./verdict.ts";

/** The question cannot be answered: it is malformed, or names no listener. */
export type NotExplained = Exclude<ExplainResult, { readonly kind: "answer" }>;

/** The verdict of a target's intentions over what a split sends; `null`: its callee is no one service. */
export type AskCallee = (split: SplitView, target: TargetView) => Promise<CalleeVerdict | null>;

/** Additions of the main thread and of Consul to the answers of the data paths. */
export interface AskMesh {
  readonly proxy: ExplainingProxy;
  readonly callee: AskCallee;
  /** Snapshots come from Consul. */
  readonly hasConsul: boolean;
  /** The identity that this proxy proves towards upstreams; `""`: none. */
  readonly ownUri: string;
  /** Sentences about the upstream, if it refuses this service. */
  refusing(upstream: string | null): readonly string[];
  sourceNote(uri: string | null): Promise<string>;
  /** `undefined`: the service itself. */
  unfollowed(upstream: string | undefined): readonly string[];
}

/** All data paths decide alike, but differ in the endpoints seen. `undefined`: none answered. */
export async function mergeExplained(
  all: readonly ExplainResult[],
  ask: AskMesh,
): Promise<ExplanationView | NotExplained | undefined> {
  const [first] = all;
  if (first?.kind !== "answer") return first;
  const explanations = all.flatMap((each) => each.kind === "answer" ? [each.explanation] : []);
  const { plugins, splits, ...rest } = first.explanation;
  const shown = await Promise.all(splits.map(async (split, leg): Promise<ExplainedSplit> => {
    const { head: _head, ...facts } = split;
    return {
      ...facts,
      ...timeoutsOf(first.explanation, split),
      plugins: Object.fromEntries(
        Object.entries(split.plugins).map(([name, config]) => [name, shownConfig(name, config)]),
      ),
      targets: await Promise.all(split.targets.map(async (target, at) => ({
        ...mergeTarget(target, explanations.flatMap((each) => each.splits[leg]?.targets[at] ?? [])),
        callee: split.answer ? null : await ask.callee(split, target),
      }))),
    };
  }));
  return {
    proxy: ask.proxy,
    ...rest,
    ...verdictOf(first.explanation.answer, shown),
    workers: explanations.length,
    hasConsul: ask.hasConsul,
    sourceNote: await ask.sourceNote(first.explanation.source),
    unfollowed: unfollowedBy(first.explanation, ask),
    plugins: plugins.map(({ config, routeConfig, ...plugin }, at) => ({
      ...plugin,
      isBroken: explanations.some((each) => each.plugins[at]?.isBroken),
      config: shownConfig(plugin.name, config),
      routeConfig: shownConfig(plugin.name, routeConfig),
    })).filter((plugin) => !isIdle(plugin)),
    splits: shown,
    refusing: ask.refusing(first.explanation.upstream),
    next: nextCommands(shown, ask.ownUri),
  };
}

/** Those of the split, the route, the plugin or the listener, in this order. */
function timeoutsOf(
  { requestTimeoutMs, idleTimeoutMs, plugins }: Explanation,
  split: SplitView,
): Pick<ExplainedSplit, "requestTimeoutMs" | "idleTimeoutMs"> {
  const plugin = plugins.find(({ name }) => name === "timeout");
  const settings = [split.plugins["timeout"] ?? plugin?.routeConfig, plugin?.config];
  const of = (name: "requestTimeoutMs" | "idleTimeoutMs") =>
    settings.map((config): unknown => (config as Partial<Record<typeof name, unknown>>)?.[name])
      .find((value) => typeof value === "number");
  return {
    requestTimeoutMs: of("requestTimeoutMs") ?? requestTimeoutMs,
    idleTimeoutMs: of("idleTimeoutMs") ?? idleTimeoutMs,
  };
}

function unfollowedBy(
  { direction, upstream }: Explanation,
  ask: Pick<AskMesh, "unfollowed">,
): readonly string[] {
  if (upstream !== null) return ask.unfollowed(upstream);
  return direction === "inbound" ? ask.unfollowed(undefined) : [];
}

/** Plugins that routes configure; without configuration they change nothing. */
const ROUTE_PLUGINS: ReadonlySet<string> = new Set([
  "header_rules",
  "path_rewrite",
  "redirect",
  "retry",
  "timeout",
]);

function isIdle({ name, config, routeConfig }: ExplanationView["plugins"][number]): boolean {
  return ROUTE_PLUGINS.has(name) && routeConfig === undefined && isEmptyConfig(config);
}

export function isEmptyConfig(config: unknown): boolean {
  return typeof config !== "object" || config === null || Object.keys(config).length === 0;
}

function mergeTarget(
  first: TargetView,
  all: readonly TargetView[],
): Omit<ExplainedTarget, "callee"> {
  const endpoints = first.endpoints.map((endpoint) => {
    const seen = all.flatMap((each) =>
      each.endpoints.filter(({ id, address }) => id === endpoint.id && address === endpoint.address)
    );
    return {
      ...endpoint,
      active: seen.reduce((sum, { active }) => sum + active, 0),
      ...mergeFailures(seen),
      ejectedForMs: Math.max(...seen.map(({ ejectedForMs }) => ejectedForMs)),
      ejectedBy: seen.filter(({ ejectedForMs }) => ejectedForMs > 0).length,
      unreachable: seen.find(({ unreachable }) => unreachable !== null)?.unreachable ?? null,
    };
  });
  return { ...first, endpoints };
}

/** Texts of a plugin's configuration may be keys under any name; only those of plain plugins are shown. */
function shownConfig(name: string, config: unknown): unknown {
  return PLAIN_PLUGINS.has(name) ? config : withoutTexts(config);
}

function withoutTexts(value: unknown): unknown {
  if (typeof value === "string") return NOT_SHOWN;
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(withoutTexts);
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, withoutTexts(each)]));
}
