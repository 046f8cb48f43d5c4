/** Creates the plugins of a generation one after the other, and closes them in reverse order. @module */

import { ProxyError } from "../base/mod.ts";
import type { PluginUse } from "../snapshot/mod.ts";
import type { FindRoute, Plugin, Route } from "./api.ts";
import { stopTimers } from "./code.ts";
import { faultOf } from "./source_positions.ts";
import { type HookMark, IN } from "./hook_marks.ts";
import { type HostDeps, PluginHost } from "./host.ts";
import { type AnyPlugin, configOf } from "./definition.ts";
import { PluginHealth } from "./plugin_health.ts";

export interface ListedPlugin {
  readonly definition: AnyPlugin;
  readonly config: unknown;
  /** Its configuration for routes, by their names; absent: none. */
  readonly routes?: Readonly<Record<string, unknown>>;
  /** The plugin's own name, if it is part of the executable. */
  readonly builtIn?: string;
  /** Absent: a test made it. */
  readonly origin?: PluginOrigin;
  /** `skip`: a request continues without the plugin if it fails. */
  readonly onFailure: "refuse" | "skip";
  /** See `isForAll` of `PluginUse` in the snapshot; default: false. */
  readonly isForAll?: boolean;
  /** Path of its configuration, for messages: `inbound.plugins[0]`. */
  readonly at: string;
  /** Only plugins from files have one. */
  readonly mark?: HookMark | undefined;
  /** The part of the time limit of `create` that the import has taken; default: 0. */
  readonly importMs?: number;
}

/** Where the code of a plugin comes from. */
export interface PluginOrigin {
  /** `use`, as written in the configuration. */
  readonly use: string;
  readonly source: "built-in" | "file" | "bundle" | "consul-kv" | "https";
  /** Digest of the sources or the bundle; `null`: it is part of the executable. */
  readonly sha256: string | null;
  /** The configuration demands this digest. */
  readonly pinned: boolean;
}

export function originOf({ plugin: use, file }: PluginUse): PluginOrigin {
  if (!file) return { use, source: "built-in", sha256: null, pinned: false };
  const [, remote] = /^(consul-kv|https):/.exec(use) ?? [];
  const local = use.endsWith(".bundle") ? "bundle" : "file";
  const source = remote === "consul-kv" || remote === "https" ? remote : local;
  return { use, source, sha256: file.digest, pinned: file.isPinned === true };
}

export interface RoutePlugins {
  readonly route: Route;
  /** By plugin name. */
  readonly configs: Readonly<Record<string, unknown>>;
  /** Replaces {@link configs} if plugins are configured by split; one is picked by weight before they run. */
  readonly splits?: readonly SplitPlugins[];
  readonly at: string;
}

export interface SplitPlugins extends Pick<RoutePlugins, "configs"> {
  readonly weight: number;
  /** The resolver node that the split leads to. */
  readonly resolver: string;
}

export interface GenerationOptions {
  readonly listener: string;
  /** The version of the snapshot; default 0. */
  readonly number?: number;
  /** The listener carries bytes, not requests; default: false. */
  readonly carriesBytes?: boolean;
  readonly plugins: readonly ListedPlugin[];
  /** Never empty; the last matches every request. */
  readonly routes: readonly RoutePlugins[];
  readonly lender: HostDeps;
  /** Monotonic time until which all plugins must be created; default: each has its own limit only. */
  readonly untilMs?: number;
}

export interface PluginInstance {
  readonly place: ListedPlugin;
  readonly host: PluginHost;
  readonly plugin: Plugin;
  readonly health: PluginHealth;
  /** It looks at requests, and the listener carries bytes. */
  readonly isUnused: boolean;
}

export const CREATE_LIMIT_MS = 5_000;
const CLOSE_LIMIT_MS = 5_000;

/** Creates all plugins, or none. Throws an error that names the path of the failed one. */
export async function createInstances(
  options: GenerationOptions,
): Promise<readonly PluginInstance[]> {
  const { plugins, lender } = options;
  checkPlaces(plugins);
  const configs = await Promise.all(
    plugins.map(({ definition, config, at, mark }) => {
      const parse = () => configOf(definition.config, config, `${at}.config`);
      return mark ? mark.call(IN.config, parse) : parse();
    }),
  );
  const instances: PluginInstance[] = [];
  try {
    for (const [index, place] of plugins.entries()) {
      instances.push(await createInstance(place, configs[index], options));
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
  { listener, lender, carriesBytes = false, untilMs = Infinity }: GenerationOptions,
): Promise<PluginInstance> {
  const { definition, onFailure, at, mark, importMs = 0 } = place;
  const { name } = definition;
  const host = new PluginHost(name, listener, lender);
  const { log } = host;
  const health = new PluginHealth({ plugin: name, listener, onFailure, at, log, mark, lender });
  if (mark?.held?.barred === "calls") {
    const plugin = notCalled(definition, carriesBytes, health);
    return { place, host, plugin, health, isUnused: false };
  }
  const startedMs = health.nowMs();
  const outer = health.enter(IN.create);
  const making = Promise.try(() => definition.create(host, config));
  health.leave(outer);
  health.end(startedMs, "create");
  let plugin: Plugin;
  try {
    const limitMs = Math.min(CREATE_LIMIT_MS - importMs, untilMs - startedMs);
    plugin = await within(Math.max(0, Math.round(limitMs)), making, lender);
  } catch (error) {
    host.close();
    // A plugin that is created too late is closed here.
    making.then((plugin) => {
      return closeAll([{ place, host, plugin, health, isUnused: true }], lender);
    }, () => {});
    throw new TypeError(`${at}: create(): ${faultOf(error)}`);
  }
  const isPlugin = typeof plugin === "object" && plugin !== null;
  const isUnused = isPlugin && carriesBytes && !!plugin.onRequest && !plugin.onConnection;
  const instance = { place, host, plugin, health, isUnused };
  if (isPlugin && (!isUnused || place.isForAll)) return instance;
  await closeAll([instance], lender);
  const fault = isPlugin
    ? "looks at requests, and this listener carries bytes"
    : "gave no plugin back from create()";
  throw new TypeError(`${at}: ${name} ${fault}`);
}

/** Stands for a plugin that held workers: its health lets no call through. */
function notCalled({ phase }: AnyPlugin, carriesBytes: boolean, health: PluginHealth): Plugin {
  const refuse = () => {
    throw new TypeError(health.whyBroken);
  };
  if (phase === "route") return { onRoutes: () => refuse };
  return carriesBytes ? { onConnection: refuse } : { onRequest: refuse };
}

/** Closes the plugins within one time limit. Never rejects. */
export async function closeAll(
  instances: readonly PluginInstance[],
  lender: HostDeps,
): Promise<void> {
  await Promise.all(
    instances.toReversed().map(async ({ host, plugin, place, health }) => {
      host.close();
      try {
        const outer = health.enter(IN.close);
        const closing = Promise.try(() => plugin.close?.());
        health.leave(outer);
        await within(CLOSE_LIMIT_MS, closing, lender);
      } catch (error) {
        host.log.warn("close() failed", { reason: faultOf(error) });
      }
      place.mark?.close();
      const timers = stopTimers(place.definition);
      const reason = `timers were running still, which were stopped: ${timers}`;
      if (timers > 0) health.failed(reason, { hook: "close" });
    }),
  );
}

function checkPlaces(plugins: readonly ListedPlugin[]): void {
  const seen = new Map<string, string>();
  for (const { definition: { name, phase }, onFailure, at } of plugins) {
    const key = phase === "route" || phase === "retry" ? phase : name;
    const other = seen.get(key);
    if (other !== undefined) {
      const what = key === name
        ? `${name} is there already; write "as" for another name`
        : `${other} is of phase ${phase}, too`;
      throw new ProxyError("plugin_failed", `${at}: ${what}`);
    }
    seen.set(key, name);
    if (phase === "guard" && onFailure === "skip") {
      throw new ProxyError("plugin_failed", `${at}.onFailure: ${name} is a guard, never skipped`);
    }
  }
}

/** The function that finds a route, and the plugin that made it. */
export interface RouteLookup {
  readonly find: FindRoute;
  readonly chooser: PluginInstance | undefined;
}

/** Without a route plugin every request takes the first route. Throws an error that names the path. */
export async function findRouteOf(
  instances: readonly PluginInstance[],
  { routes: places, lender }: GenerationOptions,
): Promise<RouteLookup> {
  const routes = places.map(({ route }) => route);
  const chooser = instances.find(({ plugin }) => plugin.onRoutes);
  if (!chooser) return { find: () => routes[0], chooser };
  const { plugin, health, place: { at } } = chooser;
  const outer = health.enter(IN.onRoutes);
  const finding = Promise.try(() => plugin.onRoutes?.(routes) ?? (() => undefined));
  health.leave(outer);
  const find = await within(CREATE_LIMIT_MS, finding, lender).catch((error) => {
    throw new TypeError(`${at}: onRoutes(): ${faultOf(error)}`);
  });
  return { find, chooser };
}

export function within<T>(
  limitMs: number,
  promise: Promise<T>,
  { clock }: Pick<HostDeps, "clock">,
): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = clock.after(limitMs, () => late.reject(new Error(`not done after ${limitMs} ms`)));
  return Promise.race([promise, late.promise]).finally(() => timer.cancel());
}
