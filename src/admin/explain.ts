/**
 * `/explain`: what the data paths say would become of a request, as one answer that may be shown.
 *
 * @module
 */

import type { TriedPermission } from "../policy/mod.ts";
import {
  type ExplainQuery,
  type ExplainResult,
  type Explanation,
  PLAIN_PLUGINS,
  type SplitView,
  type TargetView,
} from "../proxy/mod.ts";
import type { Refusal } from "../snapshot/mod.ts";
import { NOT_SHOWN } from "./redact.ts";

/** What a callee's intentions say of a request that this proxy would send it. */
export interface CalleeVerdict {
  readonly service: string;
  /** `unknown`: they cannot be read, or nothing here can tell. */
  readonly verdict: "allow" | "deny" | "unknown";
  /** Of `deny`: what its proxy answers; 0: it closes the connection. */
  readonly status: number;
  /** As its proxy reads the path, judges it and sends it on; `null`: it carries bytes, or refuses it. */
  readonly path: string | null;
  /** The intention that decides; of `unknown` why it is so. */
  readonly reason: string;
  readonly permissions: readonly TriedPermission[];
}

/** The answer of all data paths together. */
export interface ExplanationView extends Omit<Explanation, "splits"> {
  /** Whether a request goes on to whoever serves it; `depends`: on which split it takes. */
  readonly verdict: "allow" | "deny" | "depends";
  /** What its caller is answered where that is known; 0: that is for the callee to say, or nothing is. */
  readonly status: number;
  /** Data paths that answered. */
  readonly workers: number;
  /** What is to be said of the source: `no service "shpo" is in the catalog of dc1`; `""`: nothing. */
  readonly sourceNote: string;
  /** What of the configuration of its upstream, or of the service, is not followed, in sentences. */
  readonly unfollowed: readonly string[];
  readonly splits: readonly ExplainedSplit[];
}

export interface ExplainedSplit extends Omit<SplitView, "targets" | "head"> {
  readonly targets: readonly ExplainedTarget[];
}

export interface ExplainedTarget extends Omit<TargetView, "endpoints"> {
  readonly endpoints: readonly ExplainedEndpoint[];
  /** `null`: nothing is sent there. */
  readonly callee: CalleeVerdict | null;
}

/** What most data paths would not say is said by the one that saw most. */
export type ExplainedEndpoint = TargetView["endpoints"][number] & {
  /** Data paths that leave it out now, since it failed them. */
  readonly ejectedBy: number;
};

type Refused = Exclude<ExplainResult, { readonly kind: "answer" }>;

/** Asks what the intentions of a target say of what a split sends; `null`: nothing is sent. */
export type AskCallee = (split: SplitView, target: TargetView) => Promise<CalleeVerdict | null>;

/** `/explain?upstream=db&method=GET&path=/a`. */
export function questionOf(
  query: (name: string) => string | undefined,
  headers: readonly string[],
): ExplainQuery {
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
    host: query("host"),
    path: query("path") ?? "/",
    headers,
    connects: query("connect") !== "no",
  };
}

/** What only Consul can say, and its source. */
export interface AskMesh {
  readonly callee: AskCallee;
  sourceNote(uri: string | null): Promise<string>;
  /** `undefined`: of the service. */
  unfollowed(upstream: string | undefined): readonly string[];
}

/** All decide alike; an endpoint may have failed one and not another. `undefined`: none answered. */
export async function mergeExplained(
  all: readonly ExplainResult[],
  ask: AskMesh,
): Promise<ExplanationView | Refused | undefined> {
  const [first] = all;
  if (first?.kind !== "answer") return first;
  const explanations = all.flatMap((each) => each.kind === "answer" ? [each.explanation] : []);
  const { plugins, splits, ...rest } = first.explanation;
  const shown = await Promise.all(splits.map(async (split, leg): Promise<ExplainedSplit> => {
    const { head: _head, ...facts } = split;
    return {
      ...facts,
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
    ...rest,
    ...verdictOf(first.explanation.answer, shown),
    workers: explanations.length,
    sourceNote: await ask.sourceNote(first.explanation.source),
    unfollowed: unfollowedBy(first.explanation, ask),
    plugins: plugins.map(({ config, routeConfig, ...plugin }, at) => ({
      ...plugin,
      isBroken: explanations.some((each) => each.plugins[at]?.isBroken),
      config: shownConfig(plugin.name, config),
      routeConfig: shownConfig(plugin.name, routeConfig),
    })),
    splits: shown,
  };
}

function unfollowedBy(
  { direction, upstream }: Explanation,
  ask: Pick<AskMesh, "unfollowed">,
): readonly string[] {
  if (upstream !== null) return ask.unfollowed(upstream);
  return direction === "inbound" ? ask.unfollowed(undefined) : [];
}

/** Why there is no upstream of that name, or id; `""`: nothing is said of one. */
export function whyRefused(refused: readonly Refusal[], named: string): string {
  const name = named.replace(/:\d+$/, "");
  const found = refused.find(({ what }) =>
    what === `upstream ${named}` || /^upstream .*[:/]/.exec(what)?.[0] + name === what
  );
  return found ? `; ${found.what} is refused: ${found.reason}` : "";
}

function verdictOf(
  answer: Explanation["answer"],
  splits: readonly ExplainedSplit[],
): Pick<ExplanationView, "verdict" | "status"> {
  if (answer) return { verdict: "deny", status: answer.status };
  const ends = splits.map((split) => endOf(split));
  const [first] = ends;
  if (first === undefined) return { verdict: "allow", status: 0 };
  const isDenied = (status: number | null) => status !== null;
  if (!ends.some(isDenied)) return { verdict: "allow", status: 0 };
  if (!ends.every(isDenied)) return { verdict: "depends", status: 0 };
  return { verdict: "deny", status: ends.every((end) => end === first) ? first ?? 0 : 0 };
}

/** The status that a split's requests end with, here or by the callee's proxy; `null`: they go on. */
export function endOf({ answer, targets }: ExplainedSplit): number | null {
  if (answer) return answer.status;
  const callees = targets.filter(isReachable).map(({ callee }) => callee);
  const [first] = callees;
  return callees.every((callee) => callee?.verdict === "deny") ? first?.status ?? null : null;
}

/** As far as it is known. */
function isReachable({ endpoints }: ExplainedTarget): boolean {
  return endpoints.some(({ unreachable }) => unreachable === null || unreachable === "");
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
      failures: Math.max(...seen.map(({ failures }) => failures)),
      lastFailure: seen.find(({ lastFailure }) => lastFailure !== "")?.lastFailure ?? "",
      ejectedForMs: Math.max(...seen.map(({ ejectedForMs }) => ejectedForMs)),
      ejectedBy: seen.filter(({ ejectedForMs }) => ejectedForMs > 0).length,
      unreachable: seen.find(({ unreachable }) => unreachable !== null)?.unreachable ?? null,
    };
  });
  return { ...first, endpoints };
}

/** A plugin's configuration may have a key under any name: of other plugins no texts are shown. */
function shownConfig(name: string, config: unknown): unknown {
  return PLAIN_PLUGINS.has(name) ? config : withoutTexts(config);
}

function withoutTexts(value: unknown): unknown {
  if (typeof value === "string") return NOT_SHOWN;
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(withoutTexts);
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, withoutTexts(each)]));
}
