/** The plugins of each listener: those in its configuration, and those its chain needs. @module */

import { DEFAULT_ROUTE } from "../../chain/mod.ts";
import type { ListenerPlugins, PluginsOf, RoutePlugins } from "../../plugin/mod.ts";
import type { ChainPart, PluginUse, Snapshot } from "../../snapshot/mod.ts";

/** Picks the route if there are several. */
const ROUTE_MATCH = "route_match";
const ONLY: RoutePlugins = {
  route: { name: DEFAULT_ROUTE, service: "", match: null },
  configs: {},
  at: "",
};

/** Key of the plugins that verify tokens for a listener; they run before its own plugins, and apart from them. */
export function tokensOf(listener: string): string {
  return `${listener} tokens`;
}

/** By name of the listener. */
export function pluginsOf({ inbound, upstreams, edges, chains }: Snapshot): PluginsOf {
  const all = new Map<string, ListenerPlugins>();
  for (const [name, { plugins: uses, http }] of Object.entries({ ...inbound, ...edges })) {
    if (uses.length > 0) all.set(name, { uses, carriesBytes: http === null, routes: [ONLY] });
  }
  for (const [name, { tokens, http }] of Object.entries(inbound)) {
    if (!tokens || !http) continue;
    all.set(tokensOf(name), { uses: [tokens], carriesBytes: false, routes: [ONLY] });
  }
  for (const [name, { plugins, http, chain }] of Object.entries(upstreams)) {
    const carriesBytes = http === null;
    const routes = carriesBytes ? [ONLY] : placesOf(name, chains[chain]);
    const uses = usesOf(plugins, routes, name);
    if (uses.length > 0) all.set(name, { uses, carriesBytes, routes });
  }
  return all;
}

function placesOf(upstream: string, chain: ChainPart | undefined): readonly RoutePlugins[] {
  if (!chain) return [ONLY];
  return chain.routes.map(({ name, service, match, plugins, splits }) => ({
    route: { name, service, match },
    configs: plugins,
    // The choice of a split matters to plugins only if their configuration differs by split.
    ...splits.some((split) => split.plugins) && {
      splits: splits.map(({ weight, resolver, plugins: own = plugins }) => ({
        weight,
        resolver,
        configs: own,
      })),
    },
    at: `${upstream} ${name}`,
  }));
}

/** A plugin that routes configure and the list lacks is added with an empty configuration. */
function usesOf(
  listed: readonly PluginUse[],
  routes: readonly RoutePlugins[],
  upstream: string,
): readonly PluginUse[] {
  const all = routes.flatMap((
    { configs, splits = [] },
  ) => [configs, ...splits.map(({ configs }) => configs)]);
  const wanted = new Set(all.flatMap((configs) => Object.keys(configs)));
  if (routes.length > 1) wanted.add(ROUTE_MATCH);
  for (const { plugin, as = plugin } of listed) wanted.delete(as);
  const added = [...wanted].sort().map((plugin) => ({
    plugin,
    config: {},
    onFailure: "refuse" as const,
    at: `the chain of ${upstream}`,
  }));
  return [...listed, ...added];
}
