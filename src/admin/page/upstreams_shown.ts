/** Upstreams for the page at `/`: routes, splits, targets and endpoints with their health. @module */

import { formatAddress, formatSpanMs } from "../../base/mod.ts";
import { DEFAULT_ROUTE } from "../../chain/mod.ts";
import { type DataView, type EndpointView, routeView } from "../../proxy/mod.ts";
import {
  type ChainPart,
  localAddressOf,
  type Snapshot,
  type TargetPart,
  upstreamLabel,
  type UpstreamPart,
} from "../../snapshot/mod.ts";
import { failureText, keepsFailing, type UpstreamTrouble } from "../upstream_troubles.ts";
import type { AdminView } from "../view.ts";
import { flowKey, type FlowShown, NO_FLOW, type TrafficShown } from "./traffic_history.ts";

/** `ok` is green, `warn` is amber, `bad` is red; `idle` has no colour. */
export type Level = "ok" | "warn" | "bad" | "idle";

export interface StateShown {
  readonly level: Level;
  /** One or two words: colour alone tells nothing to many people. */
  readonly word: string;
}

export interface UpstreamShown {
  readonly id: string;
  readonly name: string;
  /** The address for the application; `""`: it is reached through an edge. */
  readonly address: string;
  readonly protocol: string;
  /** Open connections of callers. */
  readonly open: number;
  readonly flow: FlowShown;
  readonly state: StateShown;
  readonly routes: readonly RouteShown[];
  readonly targets: readonly TargetShown[];
  /** Routes that the page leaves out. */
  readonly moreRoutes: number;
}

interface RouteShown {
  readonly name: string;
  readonly matches: string;
  readonly flow: FlowShown;
  readonly splits: readonly SplitShown[];
}

interface SplitShown {
  /** Share of the route's requests, 0 to 1. */
  readonly share: number;
  /** Names of targets: the first takes the traffic, the others are for failover, in this order. */
  readonly targets: readonly string[];
}

interface TargetShown {
  readonly key: string;
  readonly name: string;
  /** Why it has no endpoint; `""`: it has one. */
  readonly lack: string;
  readonly usable: number;
  readonly endpoints: readonly EndpointShown[];
  /** Endpoints that the page leaves out. */
  readonly more: number;
}

interface EndpointShown {
  readonly id: string;
  readonly address: string;
  readonly weight: number;
  readonly active: number;
  readonly state: StateShown;
  /** Why it is not healthy; `""`: it is. */
  readonly why: string;
  readonly flow: FlowShown;
}

const LIMITS = { upstreams: 40, routes: 25, targets: 12, endpoints: 16 } as const;
/** An upstream that refuses a smaller share of the requests is in use. */
const MOSTLY = 0.5;
const ORDER: Readonly<Record<Level, number>> = { bad: 0, warn: 1, ok: 2, idle: 3 };

/** Unusable upstreams first; `more`: those that the page leaves out. */
export function upstreamsShown(
  view: Pick<AdminView, "snapshot" | "source" | "refused">,
  { endpoints, connections, traffic, troubles, refusing }:
    & Pick<DataView, "endpoints" | "connections" | "refusing">
    & {
      readonly traffic: TrafficShown;
      readonly troubles: readonly UpstreamTrouble[];
    },
): { readonly upstreams: readonly UpstreamShown[]; readonly more: number } {
  const snapshot = view.snapshot();
  if (!snapshot) return { upstreams: [], more: 0 };
  const byTarget = Map.groupBy(endpoints, ({ target }) => target);
  const unusable = new Set(troubles.map(({ id }) => id));
  const served = Object.values(snapshot.upstreams).map((part) =>
    servedUpstream(part, {
      snapshot,
      byTarget,
      isUnusable: unusable.has(part.id),
      refuses: refusing.some(({ upstream }) => upstream === upstreamLabel(part)),
      flow: (...key) => traffic.flows.get(flowKey(...key)) ?? NO_FLOW,
      open: connections.filter(({ listener }) => listener === part.id).length,
    })
  );
  const pending = (view.source()?.pending ?? []).filter((id) => !snapshot.upstreams[id])
    .map((id) => unservedUpstream({ id, name: nameIn(id) }, { level: "warn", word: "waiting" }));
  const refused = view.refused().flatMap(({ upstream }) =>
    upstream && !snapshot.upstreams[upstream.id]
      ? [unservedUpstream(upstream, { level: "bad", word: "refused" })]
      : []
  );
  const all = worstFirst([...refused, ...served, ...pending]);
  const upstreams = all.slice(0, LIMITS.upstreams);
  return { upstreams, more: all.length - upstreams.length };
}

function unservedUpstream(
  upstream: Pick<UpstreamPart, "id" | "name"> & Partial<Pick<UpstreamPart, "bind">>,
  state: StateShown,
): UpstreamShown {
  return {
    id: upstream.id,
    name: upstreamLabel(upstream),
    address: localAddressOf({ bind: upstream.bind ?? null }),
    protocol: "",
    open: 0,
    flow: NO_FLOW,
    state,
    routes: [],
    targets: [],
    moreRoutes: 0,
  };
}

/** `service:default/default/db` is `db`. */
function nameIn(id: string): string {
  return id.replace(/\?.*$/, "").replace(/^.*[:/]/, "");
}

type FlowOf = (...key: Parameters<typeof flowKey>) => FlowShown;

function servedUpstream(
  part: UpstreamPart,
  { snapshot, byTarget, isUnusable, refuses, open, flow }: {
    readonly snapshot: Snapshot;
    readonly byTarget: ReadonlyMap<string, readonly EndpointView[]>;
    readonly isUnusable: boolean;
    /** Its proxy refused this service within the last minute. */
    readonly refuses: boolean;
    readonly open: number;
    readonly flow: FlowOf;
  },
): UpstreamShown {
  const chain: ChainPart | undefined = snapshot.chains[part.chain];
  const resolvers = Object.values(chain?.resolvers ?? {});
  const keys = [...new Set(resolvers.flatMap(({ targets }) => targets))].slice(0, LIMITS.targets);
  const label = upstreamLabel(part);
  const targets = keys.flatMap((key) => {
    const target = snapshot.targets[key];
    return target
      ? [
        targetShown(target, {
          seen: byTarget.get(key) ?? [],
          http: !!part.http,
          flow: (address) => flow("endpoint", label, key, address),
        }),
      ]
      : [];
  });
  const routes = chain?.routes ?? [];
  const hasFault = targets.some(({ endpoints }) =>
    endpoints.some(({ state }) => state.level !== "ok" && state.level !== "idle")
  );
  return {
    ...unservedUpstream(
      part,
      isUnusable
        ? { level: "bad", word: "not usable" }
        : refuses
        ? { level: flow("upstream", label).errorShare < MOSTLY ? "warn" : "bad", word: "refuses" }
        : hasFault
        ? { level: "warn", word: "in part" }
        : { level: "ok", word: "healthy" },
    ),
    protocol: part.http?.protocol ?? "tcp",
    open,
    flow: flow("upstream", label),
    routes: routes.slice(0, LIMITS.routes).map((route) => {
      const whole = route.splits.reduce((sum, { weight }) => sum + weight, 0);
      return {
        name: route.name,
        matches: routeView(route).matches,
        flow: flow("route", label, route.name === DEFAULT_ROUTE ? "" : route.name),
        splits: route.splits.map(({ weight, resolver }) => ({
          share: whole === 0 ? 0 : weight / whole,
          targets: (chain?.resolvers[resolver]?.targets ?? []).map(targetName),
        })),
      };
    }),
    targets,
    moreRoutes: Math.max(0, routes.length - LIMITS.routes),
  };
}

/** A target of Consul is named like its SNI; one of a file has the upstream's id before it. */
function targetName(key: string): string {
  return key.replace(/^.*#/, "");
}

function targetShown(
  part: TargetPart,
  { seen, http, flow }: {
    readonly seen: readonly EndpointView[];
    readonly http: boolean;
    readonly flow: (address: string) => FlowShown;
  },
): TargetShown {
  const live = seen.map((endpoint): EndpointShown => {
    const { id, address, weight, active } = endpoint;
    return { id, address, weight, active, flow: flow(address), ...healthOf(endpoint, http) };
  });
  const critical = part.unhealthy.map(({ id, host, port, weight, checks }): EndpointShown => {
    const address = formatAddress({ kind: "tcp", host, port });
    const isKept = checks?.some((check) => /^_(?:service|node)_maintenance/.test(check));
    const state = isKept
      ? { level: "warn", word: "maintenance" } as const
      : { level: "bad", word: "critical" } as const;
    const why = isKept
      ? "it is in maintenance mode, so it is not dialled"
      : "its checks fail, so it is not dialled";
    return { id, address, weight, active: 0, flow: NO_FLOW, state, why };
  });
  const all = worstFirst([...critical, ...live]);
  const endpoints = all.slice(0, LIMITS.endpoints);
  return {
    key: part.key,
    name: targetName(part.key),
    lack: part.lack,
    usable: live.filter(({ state }) => state.level === "ok").length,
    endpoints,
    more: all.length - endpoints.length,
  };
}

function healthOf(endpoint: EndpointView, http: boolean): Pick<EndpointShown, "state" | "why"> {
  const { ejectedForMs, lastResort, lastFailure } = endpoint;
  const failed = lastFailure === "" ? "" : failureText(endpoint, http ? "requests" : "connections");
  if (ejectedForMs > 0) {
    const why = `ejected for ${formatSpanMs(ejectedForMs + 999)} more${failed && `: ${failed}`}`;
    return { state: { level: "bad", word: "ejected" }, why };
  }
  if (lastResort) {
    const why = "Consul no longer lists it; it is dialled when no other endpoint is left";
    return { state: { level: "warn", word: "last resort" }, why };
  }
  if (keepsFailing(endpoint)) return { state: { level: "bad", word: "failing" }, why: failed };
  return { state: { level: "ok", word: "healthy" }, why: failed };
}

function worstFirst<T extends { readonly state: StateShown }>(all: readonly T[]): readonly T[] {
  return all.toSorted((a, b) => ORDER[a.state.level] - ORDER[b.state.level]);
}
