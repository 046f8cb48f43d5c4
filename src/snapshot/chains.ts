/** Helpers for chains, and the names under which operators write an upstream. @module */

import { formatAddress } from "../base/mod.ts";
import type { ChainPart, Resolver, Snapshot, UpstreamPart } from "./snapshot.ts";
import { DEFAULT_ROUTE, type HashPolicy } from "../chain/mod.ts";
import type { Content } from "./update.ts";

export type NamedUpstream = Pick<UpstreamPart, "id" | "name" | "bind">;

/** Consul's identifier of an upstream at Envoy: `db`, `db?dc=dc2`, `prepared_query:geo`. */
export function upstreamLabel({ id, name }: Pick<UpstreamPart, "id" | "name">): string {
  const type = /^(?!service:|ingress:)([a-z_]+:)/.exec(id)?.[1] ?? "";
  const place = /\?(?:dc|peer)=.*$/.exec(id)?.[0] ?? "";
  return `${type}${name}${place}`;
}

/** The address for the application; `""`: the upstream is reached through an ingress listener only. */
export function localAddressOf({ bind }: Pick<NamedUpstream, "bind">): string {
  return bind ? formatAddress(bind) : "";
}

/** Upstreams by id, label or address, else by the service's name, which several may share. */
export function upstreamsNamed<T>(
  upstreams: readonly T[],
  name: string,
  partOf: (upstream: T) => NamedUpstream,
): readonly T[] {
  const exact = upstreams.filter((upstream) => {
    const part = partOf(upstream);
    return [part.id, upstreamLabel(part), localAddressOf(part)].includes(name);
  });
  if (exact.length > 0) return exact;
  const service = name.replace(/:\d+$/, "");
  return upstreams.filter((upstream) => partOf(upstream).name === service);
}

const ONLY = "only";
const SOURCE: HashPolicy = { kind: "source", terminal: false };

/** A chain with nothing to choose, where a caller stays with its endpoint if balancing hashes. */
export function oneWay(resolver: Resolver, service: string): Content<ChainPart> {
  const splits = [{ weight: 1, resolver: ONLY }];
  const { kind } = resolver.balancing;
  const hash = kind === "ring_hash" || kind === "maglev" ? [SOURCE] : [];
  const route = { name: DEFAULT_ROUTE, service, match: null, splits, hash, plugins: {} };
  return { routes: [route], resolvers: { [ONLY]: resolver } };
}

/** Keys of the targets of all resolvers, each once. */
export function targetKeysOf(chain: ChainPart | undefined): readonly string[] {
  const resolvers = Object.values(chain?.resolvers ?? {});
  return [...new Set(resolvers.flatMap(({ targets }) => targets))];
}

/** Each target's cluster as Consul names it to Envoy; with failover they are below an aggregate. */
export function clusterNames(
  { targets }: Pick<Resolver, "targets">,
  parts: Snapshot["targets"],
): readonly string[] {
  const [primary = ""] = targets;
  const base = parts[primary]?.cluster ?? "";
  return targets.length > 1 ? targets.map((_, at) => `failover-target~${at}~${base}`) : [base];
}
