/**
 * The plugins of one listener, made for one configuration: all of them, or none. It serves the exchanges
 * that began on it to their end, and closes its plugins after the last.
 *
 * @module
 */

import { messageOf, ProxyError } from "../base/mod.ts";
import type { Connection, HttpRequest, Log, Plugin, Refusal, Route } from "./api.ts";
import { type Lender, PluginHost } from "./host.ts";
import type { Layer, RoutePlan } from "./onion.ts";
import { type AnyPlugin, PHASES } from "./registry.ts";
import { configOf } from "./schema.ts";

/** A plugin at its place in a listener's list. */
export interface PluginPlace {
  readonly definition: AnyPlugin;
  readonly config: unknown;
  /** `skip`: where it fails the request goes on as if it were not there. */
  readonly onFailure: "refuse" | "skip";
  /** Where its configuration stands, for messages: `inbound.plugins[0]`. */
  readonly at: string;
}

/** A route, and what is asked of plugins on it. */
export interface RoutePlace {
  readonly route: Route;
  /** By the plugin's name. */
  readonly configs: Readonly<Record<string, unknown>>;
  readonly at: string;
}

export interface GenerationOptions {
  readonly listener: string;
  readonly plugins: readonly PluginPlace[];
  /** The last takes what no other did; never empty. */
  readonly routes: readonly RoutePlace[];
  readonly lender: Lender;
}

interface Instance {
  readonly place: PluginPlace;
  readonly host: PluginHost;
  readonly plugin: Plugin;
}

const FAILURES = "postern_plugin_failures_total";
const CREATE_LIMIT_MS = 5_000;
const CLOSE_LIMIT_MS = 5_000;

export class Generation {
  readonly guards: readonly Layer[];
  readonly #options: GenerationOptions;
  readonly #instances: readonly Instance[];
  readonly #plans: ReadonlyMap<Route, RoutePlan>;
  readonly #pick: (request: HttpRequest) => Route | undefined;
  #users = 0;
  #retired = false;

  private constructor(options: GenerationOptions, made: {
    readonly instances: readonly Instance[];
    readonly routeConfigs: ReadonlyMap<Route, ReadonlyMap<string, unknown>>;
  }) {
    const { instances, routeConfigs } = made;
    const routes = options.routes.map(({ route }) => route);
    this.#options = options;
    this.#instances = instances;
    this.guards = layersOf(instances, ({ phase }) => phase === "guard", undefined);
    this.#plans = new Map(routes.map((route) => {
      const configs = routeConfigs.get(route);
      return [route, { route, layers: layersOf(instances, isOnRoute(configs), configs) }];
    }));
    const chooser = instances.find(({ plugin }) => plugin.onRoutes)?.plugin;
    const [only] = routes;
    this.#pick = chooser?.onRoutes ? chooser.onRoutes(routes) : () => only;
  }

  /** Throws a ProxyError `plugin_failed` that names plugin and place; what was made is closed then. */
  static async make(options: GenerationOptions): Promise<Generation> {
    const { plugins, listener, lender } = options;
    checkPlaces(plugins);
    const instances: Instance[] = [];
    try {
      const configs = await Promise.all(
        plugins.map(({ definition, config, at }) =>
          configOf(definition.config, config, `${at}.config`)
        ),
      );
      const routeConfigs = await routeConfigsOf(options);
      for (const [index, place] of plugins.entries()) {
        const { name } = place.definition;
        const host = new PluginHost(name, listener, lender);
        const making = Promise.try(() => place.definition.create(host, configs[index]));
        const plugin = await within(CREATE_LIMIT_MS, making, lender).catch((error) => {
          host.close();
          throw new TypeError(`${place.at}: create(): ${messageOf(error)}`);
        });
        instances.push({ place, host, plugin });
      }
      return new Generation(options, { instances, routeConfigs });
    } catch (error) {
      await closeAll(instances, lender);
      const reason = messageOf(error);
      throw new ProxyError("plugin_failed", `Cannot load the plugins of ${listener}: ${reason}`, {
        cause: error,
      });
    }
  }

  /** `undefined`: no route takes it. */
  planOf(request: HttpRequest): RoutePlan | undefined {
    const route = this.#pick(request);
    return route && this.#plans.get(route);
  }

  /** For what concerns an exchange and no plugin alone. */
  get log(): Log {
    return this.#options.lender.log;
  }

  /** A plugin did what none may do. */
  faulted({ name }: Layer, what: string): void {
    const { listener, lender: { stats } } = this.#options;
    stats.counter(FAILURES, "Plugins that did what none may do", { plugin: name, listener }).add(1);
    const instance = this.#instances.find(({ place }) => place.definition.name === name);
    instance?.host.log.warn("plugin failed", { reason: what });
  }

  /** Whether some plugin looks at connections. */
  get hasConnectionHooks(): boolean {
    return this.#instances.some(({ plugin }) => plugin.onConnection);
  }

  async connected(connection: Connection): Promise<Refusal | undefined> {
    for (const { plugin } of this.#instances) {
      const refusal = await plugin.onConnection?.(connection);
      if (refusal) return refusal;
    }
    return undefined;
  }

  enter(): void {
    this.#users++;
  }

  leave(): void {
    if (--this.#users === 0 && this.#retired) this.#close();
  }

  /** Another one serves what begins from now on. */
  retire(): void {
    if (this.#retired) return;
    this.#retired = true;
    if (this.#users === 0) this.#close();
  }

  #close(): void {
    void closeAll(this.#instances, this.#options.lender);
  }
}

function isOnRoute(configs: ReadonlyMap<string, unknown> | undefined) {
  return ({ phase, name }: AnyPlugin) =>
    phase === "guard" ? configs?.has(name) === true : phase !== "route";
}

function layersOf(
  instances: readonly Instance[],
  isWanted: (definition: AnyPlugin) => boolean,
  configs: ReadonlyMap<string, unknown> | undefined,
): Layer[] {
  const layers: Layer[] = [];
  for (const phase of PHASES) {
    for (const { place: { definition, onFailure }, plugin } of instances) {
      if (definition.phase !== phase || !plugin.onRequest || !isWanted(definition)) continue;
      layers.push({
        name: definition.name,
        phase,
        onRequest: plugin.onRequest.bind(plugin),
        routeConfig: configs?.get(definition.name),
        mayBeSkipped: onFailure === "skip",
      });
    }
  }
  return layers;
}

function checkPlaces(plugins: readonly PluginPlace[]): void {
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

async function routeConfigsOf(
  { plugins, routes }: GenerationOptions,
): Promise<Map<Route, Map<string, unknown>>> {
  const all = new Map<Route, Map<string, unknown>>();
  for (const { route, configs, at } of routes) {
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
    all.set(route, own);
  }
  return all;
}

function within<T>(limitMs: number, promise: Promise<T>, { clock }: Lender): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = clock.after(limitMs, () => late.reject(new Error(`not done after ${limitMs} ms`)));
  return Promise.race([promise, late.promise]).finally(() => timer.cancel());
}

async function closeAll(instances: readonly Instance[], lender: Lender): Promise<void> {
  for (const { host, plugin } of instances.toReversed()) {
    host.close();
    try {
      await within(CLOSE_LIMIT_MS, Promise.try(() => plugin.close?.()), lender);
    } catch (error) {
      host.log.warn("close() failed", { reason: messageOf(error) });
    }
  }
}
