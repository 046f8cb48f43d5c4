/** Upstreams that carry no traffic: refused, without instances, or with failing ones. @module */

import { formatSpanMs, type Sample } from "../base/mod.ts";
import {
  askThere,
  type EndpointView,
  refusingText,
  type RefusingView,
  routeView,
} from "../proxy/mod.ts";
import {
  type ChainPart,
  type Snapshot,
  upstreamLabel,
  type UpstreamPart,
} from "../snapshot/mod.ts";
import { proxyFlag, shellWord } from "./explain/command_words.ts";
import type { AdminView } from "./view.ts";

export interface UpstreamTrouble {
  readonly id: string;
  /** A sentence for operators. */
  readonly text: string;
}

/** Further upstreams are only counted, or are in `/traffic`. */
const SHOWN = 20;

/** `endpoints`: of all data paths together. */
export function upstreamTroubles(
  view: Pick<AdminView, "snapshot" | "source" | "refused">,
  endpoints: readonly EndpointView[],
): readonly UpstreamTrouble[] {
  const snapshot = view.snapshot();
  if (!snapshot) return [];
  const byTarget = Map.groupBy(endpoints, ({ target }) => target);
  const refused = view.refused().flatMap(({ what, reason, upstream }) =>
    upstream ? [{ id: upstream.id, text: `${what}: ${reason}` }] : []
  );
  const pending = (view.source()?.pending ?? []).filter((id) => !snapshot.upstreams[id])
    .map((id) => ({ id, text: `upstream ${id}: Consul has not answered about it yet` }));
  const unusable = Object.values(snapshot.upstreams).flatMap((upstream) =>
    troublesOf(upstream, { snapshot, byTarget }).map((text) => ({ id: upstream.id, text }))
  );
  return [...refused, ...pending, ...unusable];
}

/** Troubles of the destinations of its routes, each once. */
function troublesOf(
  upstream: UpstreamPart,
  { snapshot, byTarget }: {
    readonly snapshot: Snapshot;
    readonly byTarget: ReadonlyMap<string, readonly EndpointView[]>;
  },
): readonly string[] {
  const name = `upstream ${upstreamLabel(upstream)}`;
  const chain = snapshot.chains[upstream.chain];
  const unit = unitOf(upstream);
  const lacking = chain
    ? lackingTexts(chain, { snapshot, unit }).map((text) => `${name} has no ${text}`)
    : [];
  const failing = failingTargets(upstream, { snapshot, byTarget })
    .filter(({ instances }) => instances.every(keepsFailing))
    .map(({ worst, at }) => `${name} keeps failing${at}: ${failureText(worst, unit)}`);
  return [...new Set([...lacking, ...failing])];
}

/** Upstreams that failed a while ago and were not used since: they may serve again. */
export function pastFailureTexts(
  snapshot: Snapshot | undefined,
  endpoints: readonly EndpointView[],
): readonly string[] {
  if (!snapshot) return [];
  const byTarget = Map.groupBy(endpoints, ({ target }) => target);
  const texts = Object.values(snapshot.upstreams).flatMap((upstream) =>
    failingTargets(upstream, { snapshot, byTarget })
      .filter(({ instances }) => !instances.every(keepsFailing))
      .map(({ worst, at }) =>
        `upstream ${upstreamLabel(upstream)}${at}: ${failureText(worst, unitOf(upstream))}`
      )
  );
  return [...new Set(texts)].slice(0, SHOWN);
}

type TrafficUnit = "connections" | "requests";

function unitOf({ http }: UpstreamPart): TrafficUnit {
  return http ? "requests" : "connections";
}

/** Destinations whose instances in use all failed last, with the one that failed most often. */
function failingTargets(
  upstream: UpstreamPart,
  { snapshot, byTarget }: {
    readonly snapshot: Snapshot;
    readonly byTarget: ReadonlyMap<string, readonly EndpointView[]>;
  },
): readonly {
  readonly instances: readonly EndpointView[];
  readonly worst: EndpointView;
  /** ` at v2.api.default.default.dc1`; `""`: there is one destination. */
  readonly at: string;
}[] {
  const resolvers = Object.values(snapshot.chains[upstream.chain]?.resolvers ?? {});
  return resolvers.flatMap(({ targets }) => {
    if (lackIn(targets, snapshot) !== undefined) return [];
    const instances = instancesInUse(targets.map((key) => byTarget.get(key) ?? []));
    const worst = instances.toSorted((a, b) => b.failures - a.failures)[0];
    if (!worst || !instances.every(hasFailed)) return [];
    const at = resolvers.length > 1 ? ` at ${worst.target.replace(/^.*#/, "")}` : "";
    return [{ instances, worst, at }];
  });
}

/** For each part of the traffic that has no instance, what follows "it has no". */
function lackingTexts(
  { routes, resolvers }: ChainPart,
  { snapshot, unit }: { readonly snapshot: Snapshot; readonly unit: TrafficUnit },
): readonly string[] {
  const lacks = new Map(
    Object.entries(resolvers).flatMap(([key, { targets }]) => {
      const lack = lackIn(targets, snapshot);
      return lack === undefined ? [] : [[key, { lack, target: targets[0] ?? "" }] as const];
    }),
  );
  if (lacks.size === Object.keys(resolvers).length) {
    return [...lacks.values()].map(({ lack }) => `healthy instance: ${lack}`);
  }
  return routes.flatMap((route) => {
    const { name, match, splits } = route;
    const whole = splits.reduce((sum, { weight }) => sum + weight, 0);
    const of = match ? ` of route ${name} (${routeView(route).matches})` : "";
    const all = match || routes.length === 1 ? unit : `other ${unit}`;
    return splits.flatMap(({ weight, resolver }) => {
      const found = lacks.get(resolver);
      if (!found) return [];
      const share = Number((100 * weight / whole).toFixed(2));
      const part = share === 100 ? all : `${share} % of the ${all}`;
      return [`instance for ${part}${of} to ${targetLabel(found.target)}: ${found.lack}`];
    });
  });
}

/** `undefined`: one of them has an endpoint. */
function lackIn(targets: readonly string[], snapshot: Snapshot): string | undefined {
  const parts = targets.flatMap((key) => snapshot.targets[key] ?? []);
  return parts.every(({ lack }) => lack !== "") ? parts[0]?.lack : undefined;
}

/** `subset v2` of a key that ends in `#v2.db.default.default.dc1`, `service db` without a subset. */
function targetLabel(key: string): string {
  const name = key.replace(/^.*#/, "");
  const parts = name.split(".");
  if (parts.length === 5) return `subset ${parts[0]}`;
  return parts.length === 4 ? `service ${parts[0]}` : name;
}

/** Upstreams that refuse this service, each with its number of the last minute; most often first. */
export function refusingTexts(
  refusing: readonly RefusingView[],
  endpoints: readonly EndpointView[],
): readonly string[] {
  return refusing.slice(0, SHOWN).map((one) => {
    const { caller, count, unit, upstream, deniedBy } = one;
    const times = `${count} ${count === 1 ? unit.slice(0, -1) : unit}`;
    // A resolver may lead to another service.
    const to = upstream === deniedBy ? "" : ` to ${upstream}`;
    return `${refusingText(one)}, ${times}${to} in the last minute; ${
      commandFor(one, endpoints) ?? askThere(caller)
    }`;
  });
}

const MOST_PATH_CHARS = 200;

/** The command for the instance that refused last; `undefined`: that is not known. */
function commandFor(
  { caller, last }: RefusingView,
  endpoints: readonly EndpointView[],
): string | undefined {
  const instance = endpoints.find(({ address }) => address === last?.endpoint);
  const proxy = proxyFlag(instance?.id ?? "");
  if (!last || proxy === undefined || last.path.length > MOST_PATH_CHARS) return undefined;
  const request = `${shellWord(last.method)} ${shellWord(last.path)}`;
  return `on its host: postern explain ${proxy} -inbound -source ${shellWord(caller)} ${request}`;
}

/** Beside the verdict over one request: what other requests were answered, which it does not concern. */
export function recentTexts(refusing: readonly RefusingView[]): readonly string[] {
  return refusing.slice(0, SHOWN).map(({ count, unit, upstream, deniedBy, code, last }) => {
    const [what, were] = count === 1 ? [unit.slice(0, -1), "was"] : [unit, "were"];
    const by = upstream === deniedBy ? "it" : deniedBy;
    const how = code === "refused_by_peer" ? "probably refused" : "refused";
    const example = last ? `, the last: ${last.method} ${last.path}` : "";
    return `${count} ${what} to ${upstream} in the last minute ${were} ${how} by ${by} (${code})${example}`;
  });
}

/** Sentences, no more than an operator reads. */
export function troubleTexts(troubles: readonly UpstreamTrouble[]): readonly string[] {
  const more = troubles.length - SHOWN;
  const texts = troubles.slice(0, SHOWN).map(({ text }) => text);
  return more > 0 ? [...texts, `and ${more} more upstreams, see /clusters`] : texts;
}

/** Targets without a healthy instance, and why. */
export function lackingOf(
  snapshot: Snapshot | undefined,
): readonly { readonly target: string; readonly lack: string }[] {
  return Object.values(snapshot?.targets ?? {}).filter(({ lack }) => lack !== "")
    .map(({ key, lack }) => ({ target: key, lack }));
}

/** Ids of those that are served, and of those that are refused. */
export function declaredUpstreams(
  view: Pick<AdminView, "snapshot" | "refused">,
): readonly string[] {
  const served = Object.keys(view.snapshot()?.upstreams ?? {});
  const refused = view.refused().flatMap(({ upstream }) => upstream?.id ?? []);
  return [...new Set([...served, ...refused])];
}

export function upstreamSamples(
  view: Pick<AdminView, "snapshot" | "refused">,
  troubles: readonly UpstreamTrouble[],
): readonly Sample[] {
  const unusable = new Set(troubles.map(({ id }) => id));
  return declaredUpstreams(view).map((id) => ({
    name: "upstream_usable",
    kind: "gauge",
    help: "1 while each route of the upstream has an instance that does not keep failing, else 0",
    labels: { listener: id },
    value: unusable.has(id) ? 0 : 1,
  }));
}

/** Counts endpoints of each target. A last resort is left out: it is one of the others again. */
export function endpointSamples(endpoints: readonly EndpointView[]): readonly Sample[] {
  const byTarget = Map.groupBy(
    endpoints.filter(({ lastResort }) => !lastResort),
    ({ target }) => target,
  );
  return [...byTarget].flatMap(([target, all]) => {
    const ejected = all.filter(({ ejectedForMs }) => ejectedForMs > 0);
    const gauge = { kind: "gauge", labels: { target } } as const;
    return [
      {
        ...gauge,
        name: "endpoints",
        help: "Endpoints of the target that are known, ejected ones included",
        value: all.length,
      },
      {
        ...gauge,
        name: "endpoints_ejected",
        help: "Endpoints of the target that passive health keeps out in a data worker",
        value: ejected.length,
      },
    ];
  });
}

/** One failure is no trend; an ejected instance has reached its limit of failures. */
const IN_A_ROW = 3;
/** A failure before that says little about the next request. */
const PAST_MS = 30_000;

type Failing = Pick<EndpointView, "failures" | "lastFailure" | "failedAgoMs" | "ejectedForMs">;

/** It failed just now, and no request and no connection has succeeded since. */
export function keepsFailing(endpoint: Failing): boolean {
  return hasFailed(endpoint) && !isPast(endpoint);
}

/** No request and no connection has succeeded since. */
function hasFailed({ failures, lastFailure, ejectedForMs }: Failing): boolean {
  // An instance that ends connections right after the handshake fails without a count.
  return lastFailure !== "" && (failures >= IN_A_ROW || ejectedForMs > 0 || failures === 0);
}

function isPast({ failedAgoMs = 0 }: Pick<Failing, "failedAgoMs">): boolean {
  return failedAgoMs >= PAST_MS;
}

/** Instances that traffic goes to: those of the first target with usable ones, else all. */
export function instancesInUse<T extends Pick<EndpointView, "ejectedForMs" | "lastResort">>(
  targets: readonly (readonly T[])[],
): readonly T[] {
  const usable = targets.map((instances) =>
    instances.filter(({ ejectedForMs, lastResort }) => ejectedForMs === 0 && !lastResort)
  );
  return usable.find(({ length }) => length > 0) ?? targets.flat();
}

/** `the last 3 requests failed, the last of them was answered 503 by the other side`; an old one has its age. */
export function failureText(
  { failures, lastFailure, failedAgoMs = 0 }: Omit<Failing, "ejectedForMs">,
  unit: TrafficUnit,
): string {
  const age = isPast({ failedAgoMs }) ? `, ${formatSpanMs(failedAgoMs)} ago,` : "";
  const [, status] = /^status (\d+)$/.exec(lastFailure) ?? [];
  const how = status === undefined
    ? `failed on the other side: ${lastFailure}`
    : `was answered ${status} by the other side`;
  return failures > 1
    ? `the last ${failures} ${unit} failed, the last of them${age} ${how}`
    : `the last ${unit === "requests" ? "request" : "connection"}${age} ${how}`;
}
