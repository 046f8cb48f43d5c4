/**
 * The plugins of a generation: judged, created one after the other, and closed again in reverse.
 *
 * @module
 */

import { ProxyError } from "../base/mod.ts";
import type { FindRoute, Plugin, Route } from "./api.ts";
import { stopTimers } from "./code.ts";
import { faultOf } from "./source_positions.ts";
import { type HostDeps, PluginHost } from "./host.ts";
import type { AnyPlugin } from "./registry.ts";
import { configOf } from "./schema.ts";
import { PluginHealth } from "./plugin_health.ts";

/** A plugin at its place in a listener's list. */
export interface ListedPlugin {
  readonly definition: AnyPlugin;
  readonly config: unknown;
  /** `skip`: where it fails the request goes on as if it were not there. */
  readonly onFailure: "refuse" | "skip";
  /** Where its configuration stands, for messages: `inbound.plugins[0]`. */
  readonly at: string;
}

/** A route, and what is asked of plugins on it. */
export interface RoutePlugins {
  readonly route: Route;
  /** By the plugin's name. */
  readonly configs: Readonly<Record<string, unknown>>;
  /** In place of {@link configs}, where one is chosen by its weight before plugins are asked. */
  readonly splits?: readonly SplitPlugins[];
  readonly at: string;
}

export interface SplitPlugins extends Pick<RoutePlugins, "configs"> {
  readonly weight: number;
  /** What it leads to. */
  readonly resolver: string;
}

export interface GenerationOptions {
  readonly listener: string;
  /** The version of the snapshot that it was made for; default 0. */
  readonly number?: number;
  /** There are connections on its listener, and no requests; default: there are. */
  readonly carriesBytes?: boolean;
  readonly plugins: readonly ListedPlugin[];
  /** The last takes what no other did; never empty. */
  readonly routes: readonly RoutePlugins[];
  readonly lender: HostDeps;
}

export interface PluginInstance {
  readonly place: ListedPlugin;
  readonly host: PluginHost;
  readonly plugin: Plugin;
  readonly standing: PluginHealth;
}

const CREATE_LIMIT_MS = 5_000;
const CLOSE_LIMIT_MS = 5_000;

/** All, or none: what was created is closed where a later one fails. Throws what names the place. */
export async function createInstances(
  options: GenerationOptions,
): Promise<readonly PluginInstance[]> {
  const { plugins, lender } = options;
  checkPlaces(plugins);
  const configs = await Promise.all(
    plugins.map(({ definition, config, at }) =>
      configOf(definition.config, config, `${at}.config`)
    ),
  );
  const instances: PluginInstance[] = [];
  try {
    for (const [index, place] of plugins.entries()) {
      const instance = await createInstance(place, configs[index], options);
      instances.push(instance);
    }
    return instances;
  } catch (error) {
    await closeAll(instances, lender);
    throw error;
  }
}

async function createInstance(
  place: ListedPlugin,
  config: unknown,
  { listener, lender, carriesBytes = false }: GenerationOptions,
): Promise<PluginInstance> {
  const { definition, at } = place;
  const { name } = definition;
  const host = new PluginHost(name, listener, lender);
  const standing = new PluginHealth({ plugin: name, listener, at, log: host.log, lender });
  const startedMs = standing.nowMs();
  const making = Promise.try(() => definition.create(host, config));
  standing.end(startedMs, "create");
  let plugin: Plugin;
  try {
    plugin = await within(CREATE_LIMIT_MS, making, lender);
  } catch (error) {
    host.close();
    // One that comes after its time has nobody else who closes it.
    making.then((plugin) => closeAll([{ place, host, plugin, standing }], lender), () => {});
    throw new TypeError(`${at}: create(): ${faultOf(error)}`);
  }
  const instance = { place, host, plugin, standing };
  const fault = whyUnusable(plugin, carriesBytes);
  if (fault === undefined) return instance;
  await closeAll([instance], lender);
  throw new TypeError(`${at}: ${name} ${fault}`);
}

function whyUnusable(plugin: Plugin, carriesBytes: boolean): string | undefined {
  if (typeof plugin !== "object" || plugin === null) return "gave no plugin back from create()";
  if (carriesBytes && plugin.onRequest && !plugin.onConnection) {
    return "looks at requests, and this listener carries bytes";
  }
  return undefined;
}

/** In the time that all of them together have. Never rejects. */
export async function closeAll(
  instances: readonly PluginInstance[],
  lender: HostDeps,
): Promise<void> {
  await Promise.all(
    instances.toReversed().map(async ({ host, plugin, place, standing }) => {
      host.close();
      try {
        await within(CLOSE_LIMIT_MS, Promise.try(() => plugin.close?.()), lender);
      } catch (error) {
        host.log.warn("close() failed", { reason: faultOf(error) });
      }
      const timers = stopTimers(place.definition);
      if (timers === 0) return;
      standing.failed(`timers were running still, which were stopped: ${timers}`, {
        hook: "close",
      });
    }),
  );
}

function checkPlaces(plugins: readonly ListedPlugin[]): void {
  const seen = new Map<string, string>();
  for (const { definition: { name, phase }, onFailure, at } of plugins) {
    const key = phase === "route" || phase === "retry" ? phase : name;
    const other = seen.get(key);
    if (other !== undefined) {
      const what = key === name ? `${name} is there already` : `${other} is of phase ${phase}, too`;
      throw new ProxyError("plugin_failed", `${at}: ${what}`);
    }
    seen.set(key, name);
    if (phase === "guard" && onFailure === "skip") {
      throw new ProxyError("plugin_failed", `${at}.onFailure: ${name} is a guard, never skipped`);
    }
  }
}

/** What looks routes up, and whose it is. */
export interface RouteLookup {
  readonly find: FindRoute;
  readonly chooser: PluginInstance | undefined;
}

/** Where nobody looks for one every request takes the first. Throws what names the place. */
export async function findRouteOf(
  instances: readonly PluginInstance[],
  { routes: places, lender }: GenerationOptions,
): Promise<RouteLookup> {
  const routes = places.map(({ route }) => route);
  const chooser = instances.find(({ plugin }) => plugin.onRoutes);
  if (!chooser) return { find: () => routes[0], chooser };
  const { plugin, place: { at } } = chooser;
  const finding = Promise.try(() => plugin.onRoutes?.(routes) ?? (() => undefined));
  const find = await within(CREATE_LIMIT_MS, finding, lender).catch((error) => {
    throw new TypeError(`${at}: onRoutes(): ${faultOf(error)}`);
  });
  return { find, chooser };
}

/** A way that a request may go on a route. */
export interface RoutePath {
  readonly weight: number;
  /** `undefined`: it is left to chance later. */
  readonly resolver: string | undefined;
  /** What is said to the plugins, by their names. */
  readonly configs: ReadonlyMap<string, unknown>;
}

/** At least one for each route. */
export async function routeWaysOf(
  { plugins, routes }: GenerationOptions,
): Promise<ReadonlyMap<Route, readonly RoutePath[]>> {
  const all = new Map<Route, RoutePath[]>();
  for (const { route, configs, splits, at } of routes) {
    const ways: RoutePath[] = [];
    for (const way of splits ?? [{ weight: 1, resolver: undefined, configs }]) {
      ways.push({ ...way, configs: await routeConfigsOf(way.configs, plugins, at) });
    }
    all.set(route, ways);
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
    if (!definition.routeConfig) {
      throw new TypeError(`${path}: ${name} takes nothing for a route`);
    }
    own.set(name, await configOf(definition.routeConfig, config, path));
  }
  return own;
}

function within<T>(limitMs: number, promise: Promise<T>, { clock }: HostDeps): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = clock.after(limitMs, () => late.reject(new Error(`not done after ${limitMs} ms`)));
  return Promise.race([promise, late.promise]).finally(() => timer.cancel());
}
