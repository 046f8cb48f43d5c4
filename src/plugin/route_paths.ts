/** The configuration of plugins for routes: that of the chain, and that of their list. @module */

import type { Route } from "./api.ts";
import { configOf } from "./definition.ts";
import type { GenerationOptions, ListedPlugin, RoutePlugins } from "./instances.ts";

/** One split of a route, or the whole route. */
export interface RoutePath {
  readonly weight: number;
  /** `undefined`: a split is picked later. */
  readonly resolver: string | undefined;
  /** Configuration of the plugins, by name. */
  readonly configs: ReadonlyMap<string, unknown>;
}

/** Adds the configuration for routes that the list has to that of the chain. */
export function withListedRoutes(options: GenerationOptions): GenerationOptions {
  const { listener, plugins, routes, lender: { log, shared } } = options;
  if (!plugins.some(({ routes }) => routes)) return options;
  const known = routes.map(({ route }) => route.name);
  for (const { routes: own = {}, at } of plugins) {
    const unused = Object.keys(own).filter((name) => !known.includes(name)).join(", ");
    if (unused === "" || shared.worker.index > 0) continue;
    const facts = { listener, at: `${at}.routes`, unused, known: known.join(", ") };
    log.warn(
      "configuration of a plugin for routes is not used: there are none of that name",
      facts,
    );
  }
  const joined = (route: Route, configs: RoutePlugins["configs"]) => {
    const all = { ...configs };
    for (const { definition: { name }, routes: own = {}, at } of plugins) {
      if (!Object.hasOwn(own, route.name)) continue;
      if (Object.hasOwn(configs, name)) {
        const place = `${at}.routes[${JSON.stringify(route.name)}]`;
        throw new TypeError(`${place}: the chain configures ${name} there; list it with "as"`);
      }
      all[name] = own[route.name];
    }
    return all;
  };
  return {
    ...options,
    routes: routes.map(({ splits, ...place }) => ({
      ...place,
      configs: joined(place.route, place.configs),
      ...splits && {
        splits: splits.map((split) => ({ ...split, configs: joined(place.route, split.configs) })),
      },
    })),
  };
}

export async function routePathsOf(
  { plugins, routes }: GenerationOptions,
): Promise<ReadonlyMap<Route, readonly RoutePath[]>> {
  const all = new Map<Route, RoutePath[]>();
  for (const { route, configs, splits, at } of routes) {
    const paths: RoutePath[] = [];
    for (const split of splits ?? [{ weight: 1, resolver: undefined, configs }]) {
      paths.push({ ...split, configs: await routeConfigsOf(split.configs, plugins, at) });
    }
    all.set(route, paths);
  }
  return all;
}

async function routeConfigsOf(
  configs: RoutePlugins["configs"],
  plugins: readonly ListedPlugin[],
  at: string,
): Promise<ReadonlyMap<string, unknown>> {
  const own = new Map<string, unknown>();
  for (const [name, config] of Object.entries(configs)) {
    const path = `${at}.${name}`;
    const definition = plugins.find((place) => place.definition.name === name)?.definition;
    if (!definition) throw new TypeError(`${path}: no plugin of that name is loaded`);
    if (!definition.routeConfig) throw new TypeError(`${path}: ${name} takes nothing for a route`);
    own.set(name, await configOf(definition.routeConfig, config, path));
  }
  return own;
}
