/**
 * The listener that a request to be explained would reach.
 *
 * @module
 */

import { type Snapshot, upstreamLabel, upstreamsNamed } from "../../snapshot/mod.ts";
import type { ExplainQuery } from "./explanation.ts";
import type { ServedListener } from "../listen/listener.ts";

/** The state that a question is answered from. */
export interface ExplainContext {
  readonly snapshot: Snapshot;
  /** Listeners by their names, and upstreams that edges lead to. */
  readonly listeners: ReadonlyMap<string, ServedListener>;
  /** Why the listener of that name is not bound; `""`: it is, or needs no address. */
  faultOf(listener: string): string;
}

type Found = { readonly listener: ServedListener } | {
  readonly kind: "unknown";
  readonly reason: string;
};

export function findListener(
  { to, host }: ExplainQuery,
  { listeners, snapshot }: ExplainContext,
): Found {
  const all = [...listeners.values()];
  if (to.kind === "listener") {
    return found(listeners.get(to.name), "listener", to.name, [...listeners.keys()]);
  }
  if (to.kind === "inbound") {
    const name = Object.keys(snapshot.inbound)[0] ?? "";
    return found(listeners.get(name), "listener for callers of the service", name, []);
  }
  const outbounds = all.flatMap(({ name, upstream }) => upstream ? [{ name, upstream }] : []);
  const [first, second] = upstreamsNamed(outbounds, to.name, ({ upstream }) => upstream.part);
  if (first && second) {
    const ids = `${first.name} ${second.name}`;
    return { kind: "unknown", reason: `several upstreams have the name "${to.name}": ${ids}` };
  }
  const edge = all.find(({ kind, httpListener }) =>
    kind === "edge" && httpListener?.routeOf({ authority: host ?? to.name })
  );
  const labels = outbounds.map(({ upstream }) => upstreamLabel(upstream.part));
  return found(first ? listeners.get(first.name) : edge, "upstream", to.name, labels);
}

function found(
  listener: ServedListener | undefined,
  what: string,
  name: string,
  known: readonly string[],
): Found {
  if (listener) return { listener };
  const there = known.length === 0 ? "there is none" : `there is: ${known.join(" ")}`;
  return { kind: "unknown", reason: `there is no ${what}${name && ` "${name}"`}; ${there}` };
}
