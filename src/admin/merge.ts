/** Several data paths seen as one, and listeners that wait for secrets. @module */

import {
  addFaults,
  addTraffic,
  latestExemplars,
  mergeStats,
  type Sample,
  type TrafficNumbers,
} from "../base/mod.ts";
import {
  type ConnectionView,
  type DataView,
  type EndpointView,
  lastRefusals,
  type ListenerView,
  type PluginView,
  type RefusingView,
  slowest,
  type TrafficRowView,
  type TrafficView,
} from "../proxy/mod.ts";

export interface MergedView {
  readonly workers: number;
  readonly listeners: readonly ListenerView[];
  readonly connections: readonly ConnectionView[];
  readonly endpoints: readonly EndpointView[];
  readonly refusing: readonly RefusingView[];
  readonly plugins: readonly PluginView[];
  readonly samples: readonly Sample[];
  readonly traffic: TrafficView;
}

/** Worst first: a worker that failed to bind must be visible. */
const STATES = ["failed", "draining", "listening"] as const;

/** `own`: the main thread's samples. */
export function mergeViews(views: readonly DataView[], own: readonly Sample[]): MergedView {
  return {
    workers: views.length,
    listeners: mergeListeners(views.map(({ listeners }) => listeners)),
    connections: views.flatMap(({ connections }) => connections),
    endpoints: mergeEndpoints(views),
    refusing: mergeRefusing(views),
    plugins: mergePlugins(views.flatMap(({ plugins }) => plugins)),
    samples: mergeStats([own, ...views.map(({ samples }) => samples)]),
    traffic: mergeTraffic(views.map(({ traffic }) => traffic)),
  };
}

function mergeTraffic(views: readonly TrafficView[]): TrafficView {
  return {
    sinceMs: Math.max(0, ...views.map(({ sinceMs }) => sinceMs)),
    rows: mergeRows(views.flatMap(({ rows }) => rows)),
    recentMs: Math.max(0, ...views.map(({ recentMs }) => recentMs)),
    past: mergeRows(views.flatMap(({ past }) => past)),
    refusals: lastRefusals(views.map(({ refusals }) => refusals)),
    slow: slowest(views.map(({ slow }) => slow)),
  };
}

function mergeRows(rows: readonly TrafficRowView[]): readonly TrafficRowView[] {
  return mergeBy(
    rows,
    ({ direction, caller, upstream, target, endpoint, route }) =>
      [direction, caller, upstream, target, endpoint, route].join("\u0000"),
    (a, b) => {
      const recent = a.recent && b.recent ? addNumbers(a.recent, b.recent) : a.recent ?? b.recent;
      return {
        ...a,
        ...addNumbers(a, b),
        sumMs: a.sumMs + b.sumMs,
        receivedBytes: a.receivedBytes + b.receivedBytes,
        sentBytes: a.sentBytes + b.sentBytes,
        open: a.open + b.open,
        ...recent && { recent },
        ...(a.faults || b.faults) && { faults: addFaults(a.faults ?? [], b.faults ?? []) },
        ...(a.exemplars || b.exemplars) && {
          exemplars: latestExemplars(a.exemplars ?? [], b.exemplars ?? []),
        },
      };
    },
  );
}

function addNumbers(a: TrafficNumbers, b: TrafficNumbers): TrafficNumbers {
  return {
    requests: a.requests + b.requests,
    errors: a.errors + b.errors,
    counts: addTraffic(a.counts, b.counts),
  };
}

export function mergeEndpoints(
  views: readonly Pick<DataView, "endpoints">[],
): readonly EndpointView[] {
  return mergeBy(
    views.flatMap(({ endpoints }) => endpoints),
    ({ target, id, lastResort }) => `${target}\u0000${id}\u0000${lastResort}`,
    (a, b) => ({
      ...a,
      ...mergeFailures([a, b]),
      active: a.active + b.active,
      ejectedForMs: Math.max(a.ejectedForMs, b.ejectedForMs),
    }),
  );
}

type Failures = Pick<EndpointView, "failures" | "lastFailure" | "failedAgoMs" | "answeredAgoMs">;

/** One endpoint as all data paths saw it: a later answer in one of them ends the failures in all. */
export function mergeFailures(seen: readonly Failures[]): Failures {
  const failed = seen.filter(({ lastFailure }) => lastFailure !== "");
  const [last] = failed.toSorted((a, b) => (a.failedAgoMs ?? 0) - (b.failedAgoMs ?? 0));
  const answeredAgoMs = Math.min(...seen.map((each) => each.answeredAgoMs ?? Infinity));
  const answered = answeredAgoMs < Infinity && { answeredAgoMs };
  if (last && answeredAgoMs < (last.failedAgoMs ?? 0)) {
    return { failures: 0, lastFailure: "", failedAgoMs: undefined, ...answered };
  }
  const failures = Math.max(...seen.map((each) => each.failures));
  const age = last?.failedAgoMs !== undefined && { failedAgoMs: last.failedAgoMs };
  return { failures, lastFailure: last?.lastFailure ?? "", ...age, ...answered };
}

/** Upstreams that refused within the last minute, most often first. */
export function mergeRefusing(
  views: readonly Pick<DataView, "refusing">[],
): readonly RefusingView[] {
  return mergeBy(
    views.flatMap(({ refusing }) => refusing).filter(({ count }) => count > 0),
    ({ upstream, code, deniedBy }) => [upstream, code, deniedBy].join("\u0000"),
    (a, b) => ({ ...(a.at < b.at ? b : a), count: a.count + b.count }),
  ).sort((a, b) => b.count - a.count);
}

export function mergeListeners(
  paths: readonly (readonly ListenerView[])[],
): readonly ListenerView[] {
  return mergeBy(paths.flat(), ({ name }) => name, (a, b) => ({
    ...a,
    state: STATES.find((state) => state === a.state || state === b.state) ?? a.state,
    error: a.error || b.error,
    fault: a.fault || b.fault,
    warnings: [...new Set([...a.warnings, ...b.warnings])],
    connections: a.connections + b.connections,
  }));
}

/** A plugin that is broken in one worker is shown as broken. */
function mergePlugins(plugins: readonly PluginView[]): PluginView[] {
  return mergeBy(
    plugins,
    ({ listener, generation, name }) => `${listener}\u0000${generation}\u0000${name}`,
    (a, b) => ({
      ...a,
      state: PLUGIN_STATES.find((state) => state === a.state || state === b.state) ?? a.state,
      exchanges: a.exchanges + b.exchanges,
      failures: a.failures + b.failures,
      lastFailure: laterOf(a.lastFailure, b.lastFailure),
    }),
  );
}

const PLUGIN_STATES = ["broken", "unused", "serving", "draining"] as const;

type LastFailure = PluginView["lastFailure"];

function laterOf(a: LastFailure, b: LastFailure): LastFailure {
  if (!a || !b) return a ?? b;
  return a.atMs < b.atMs ? b : a;
}

function mergeBy<T>(items: readonly T[], keyOf: (item: T) => string, join: (a: T, b: T) => T): T[] {
  const merged = new Map<string, T>();
  for (const item of items) {
    const key = keyOf(item);
    const seen = merged.get(key);
    merged.set(key, seen ? join(seen, item) : item);
  }
  return [...merged.values()];
}

export interface ListenerShown extends Omit<ListenerView, "protocol" | "state"> {
  /** Absent while it warms. */
  readonly protocol?: ListenerView["protocol"];
  readonly state: ListenerView["state"] | "warming";
}

/** The text of a snapshot source: `secrets of inbound (web.pem)`, `credentials of db that ...`. */
const OF = /^(?:secrets|credentials) of (.*?)(?: listener)? (?:\(|that )/s;

/** `listeners`, then the warming listeners that are not among them. */
export function withWarming(
  listeners: readonly ListenerView[],
  warming: readonly string[],
): readonly ListenerShown[] {
  const known = new Set(listeners.map(({ name }) => name));
  const waiting = warming.map((text): ListenerShown => {
    const name = OF.exec(text)?.[1] ?? "credentials";
    return {
      name,
      direction: name === "inbound" ? "inbound" : "outbound",
      address: "",
      state: "warming",
      error: `waiting for ${text}`,
      fault: "",
      warnings: [],
      connections: 0,
    };
  });
  return [...listeners, ...waiting.filter(({ name }) => !known.has(name))];
}

export function usableSamples(listeners: readonly ListenerShown[]): readonly Sample[] {
  return listeners.map(({ name, direction, state, fault }) => ({
    name: "listener_usable",
    kind: "gauge",
    help: "1 while the listener is bound and can carry traffic, else 0",
    labels: { direction, listener: name },
    value: state === "listening" && fault === "" ? 1 : 0,
  }));
}
