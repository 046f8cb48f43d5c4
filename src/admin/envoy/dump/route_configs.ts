/** Routes of a chain, and of a listener with one route, as Envoy has them. @module */

import type { ValueMatch } from "../../../chain/mod.ts";
import type { ChainPart, ChainRoute, EdgePart, Snapshot } from "../../../snapshot/mod.ts";
import { resolverCluster } from "../clusters.ts";
import type { Json } from "../listeners.ts";
import { textMatch } from "./intentions.ts";

const TYPE = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
/** Shares of a split, to the hundredth of a per cent. */
const TOTAL_WEIGHT = 10_000;

/** The route leads to one cluster, so that a reader needs no route table. */
export function onlyCluster(
  chain: ChainPart | undefined,
  targets: Snapshot["targets"],
): string | undefined {
  const [route, ...others] = chain?.routes ?? [];
  const [split, ...splits] = route?.splits ?? [];
  const resolver = chain?.resolvers[split?.resolver ?? ""];
  if (!resolver || others.length + splits.length > 0) return undefined;
  return resolverCluster(resolver, targets);
}

export function routeConfig(
  name: string,
  hosts: readonly {
    readonly name: string;
    readonly domains: readonly string[];
    readonly routes: Json[];
  }[],
): Json {
  return { "@type": TYPE, name, virtual_hosts: hosts };
}

export function chainRoutes(
  chain: ChainPart | undefined,
  { targets, timeoutMs }: { readonly targets: Snapshot["targets"]; readonly timeoutMs: number },
): Json[] {
  const timeout = timeoutMs > 0 ? { timeout: `${timeoutMs / 1_000}s` } : {};
  return (chain?.routes ?? []).map((route) => ({
    match: matchOf(route.match),
    route: { ...actionOf(route, chain, targets), ...timeout },
  }));
}

function actionOf(
  { splits }: ChainRoute,
  chain: ChainPart | undefined,
  targets: Snapshot["targets"],
): Json {
  const total = splits.reduce((sum, { weight }) => sum + weight, 0);
  const clusters = splits.flatMap(({ weight, resolver: key }) => {
    const resolver = chain?.resolvers[key];
    const share = Math.round(weight / total * TOTAL_WEIGHT);
    return resolver ? [{ name: resolverCluster(resolver, targets), weight: share }] : [];
  });
  const [only, ...others] = clusters;
  if (only && others.length === 0) return { cluster: only.name };
  return { weighted_clusters: { clusters, total_weight: TOTAL_WEIGHT } };
}

function matchOf(match: ChainRoute["match"]): Json {
  if (!match) return { prefix: "/" };
  const { path, ignoreCase, methods, headers, query } = match;
  const kinds = { exact: "path", prefix: "prefix" } as const;
  const paths = !path
    ? { prefix: "/" }
    : path.kind === "regex"
    ? { safe_regex: { regex: path.value } }
    : { [kinds[path.kind]]: path.value };
  const all = [
    ...headers.map(headerOf),
    ...(methods.length === 0
      ? []
      : [{ name: ":method", string_match: { safe_regex: { regex: methods.join("|") } } }]),
  ];
  return {
    ...paths,
    ...(ignoreCase && { case_sensitive: false }),
    ...(all.length > 0 && { headers: all }),
    ...(query.length > 0 && { query_parameters: query.map(headerOf) }),
  };
}

function headerOf(match: ValueMatch): Json {
  const { name, kind, invert } = match;
  return {
    name,
    ...(kind === "present" ? { present_match: true } : { string_match: textMatch(match) }),
    ...(invert && { invert_match: true }),
  };
}

export function edgeRoutes(edge: EdgePart, name: string, snapshot: Snapshot): Json {
  const { targets, upstreams, chains } = snapshot;
  return routeConfig(
    name,
    edge.hosts.map(({ names, upstream: id }) => {
      const upstream = upstreams[id];
      const options = { targets, timeoutMs: upstream?.http?.requestTimeoutMs ?? 0 };
      return {
        name: upstream?.name ?? id,
        domains: names,
        routes: chainRoutes(chains[upstream?.chain ?? ""], options),
      };
    }),
  );
}
