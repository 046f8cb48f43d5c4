/**
 * Helpers for chains: a chain with a single resolver, and the targets and cluster names of a chain.
 *
 * @module
 */

import { DEFAULT_ROUTE, type HashPolicy } from "../chain/mod.ts";
import type { Content } from "./update.ts";
import type { ChainPart, Resolver, Snapshot } from "./snapshot.ts";

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

/**
 * The name of each target's cluster, in the order of {@link Resolver.targets}. The names are those that
 * Consul sends to Envoy: a resolver with failover is an aggregate cluster named after its primary target,
 * and each target has a cluster of its own below it.
 */
export function clusterNames(
  { targets }: Pick<Resolver, "targets">,
  parts: Snapshot["targets"],
): readonly string[] {
  const [primary = ""] = targets;
  const base = parts[primary]?.cluster ?? "";
  return targets.length > 1 ? targets.map((_, at) => `failover-target~${at}~${base}`) : [base];
}
