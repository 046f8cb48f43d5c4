/** The plugins of one listener and configuration: all, or none. Closed after the last exchange. @module */

import { messageOf, ProxyError, type Random, type Timer } from "../base/mod.ts";
import { evenChance, pickSplit } from "../chain/mod.ts";
import type { Connection, Exchange, HttpRequest, Log, Phase, Route } from "./api.ts";
import { stopTimers } from "./code.ts";
import { faultOf } from "./source_positions.ts";
import type { Callees } from "./callees.ts";
import {
  ConnectionHooks,
  type ConnectionHooksOptions,
  type ConnectionLayer,
} from "./connection_hooks.ts";
import {
  closeAll,
  createInstances,
  findRouteOf,
  type GenerationOptions,
  type PluginInstance,
  type PluginOrigin,
  type RouteLookup,
  type RoutePlugins,
} from "./instances.ts";
import { type RoutePath, routePathsOf, withListedRoutes } from "./route_paths.ts";
import { DRY_PLUGINS, DryRun } from "./dry_run.ts";
import { IN } from "./hook_marks.ts";
import type { PluginRequest } from "./messages.ts";
import type { Layer, RoutePlan } from "./layer_stack.ts";
import { PHASES } from "./definition.ts";
import type { LastFailure } from "./plugin_health.ts";

/** A plugin of a generation, as the admin server shows it. */
export interface PluginView extends Partial<PluginOrigin> {
  readonly listener: string;
  readonly name: string;
  /** Its place in the configuration: `inbound.plugins[0]`. */
  readonly at: string;
  /** Names of the routes that configure it. */
  readonly routes: readonly string[];
  readonly phase: Phase;
  readonly onFailure: "refuse" | "skip";
  readonly generation: number;
  /**
   * `broken`: the plugin failed too often, and is not called for a while. `unused`: it looks at requests,
   * and the listener carries bytes.
   */
  readonly state: "serving" | "draining" | "broken" | "unused";
  /** Exchanges, and connections that `onConnection` hooks judged, since the generation began. */
  readonly exchanges: number;
  readonly failures: number;
  /** `null`: no failure yet. */
  readonly lastFailure: LastFailure | null;
}

/** A layer that a request would pass, as `explain` shows it. */
export interface LayerView extends Pick<PluginView, "name" | "phase" | "onFailure"> {
  readonly isBroken: boolean;
  /** As written. `routeConfig` is `undefined` if the route configures nothing for the plugin. */
  readonly config: unknown;
  readonly routeConfig: unknown;
}

/** A replaced generation is closed after this, even if exchanges still use it. */
const DRAIN_LIMIT_MS = 300_000;

/** The plans of a route, one for each split, and the random source that picks one. */
interface RoutePlans {
  readonly plans: readonly (RoutePlan & { readonly weight: number })[];
  readonly chance: Random;
}

interface MadePlugins {
  readonly instances: readonly PluginInstance[];
  readonly paths: ReadonlyMap<Route, readonly RoutePath[]>;
  readonly routes: RouteLookup;
}

export class Generation {
  readonly guards: readonly Layer[];
  readonly #options: GenerationOptions;
  readonly #instances: readonly PluginInstance[];
  readonly #plans: ReadonlyMap<Route, RoutePlans>;
  readonly #routes: RouteLookup;
  readonly #connectionLayers: readonly ConnectionLayer[];
  readonly #closed = Promise.withResolvers<void>();
  #began = 0;
  #users = 0;
  #isRetired = false;
  /** The plugins were closed; exchanges may still go on. */
  isClosed = false;
  #drainTimer: Timer | undefined;

  private constructor(options: GenerationOptions, { instances, paths, routes }: MadePlugins) {
    this.#options = options;
    this.#instances = instances;
    // Outermost first.
    const ordered = PHASES.flatMap((phase) =>
      instances.filter(({ place }) => place.definition.phase === phase)
    );
    const layers = ordered.flatMap(layerOf);
    this.guards = layers.filter(({ phase }) => phase === "guard");
    this.#plans = new Map([...paths].map(([route, all]) => {
      const plans = all.map(({ weight, resolver, configs }) => ({
        route,
        weight,
        resolver,
        layers: layers
          .filter(({ phase, name }) => phase !== "guard" || configs.has(name))
          .map((layer) => ({ ...layer, routeConfig: configs.get(layer.name) })),
      }));
      return [route, { plans, chance: evenChance(options.lender.random) }];
    }));
    this.#connectionLayers = ordered.flatMap(connectionLayerOf);
    this.#routes = routes;
  }

  /** Throws a ProxyError `plugin_failed` that names plugin and path; created plugins are closed then. */
  static async make(given: GenerationOptions): Promise<Generation> {
    const { listener, lender } = given;
    let instances: readonly PluginInstance[] = [];
    try {
      const options = withListedRoutes(given);
      const paths = await routePathsOf(options);
      instances = await createInstances(options);
      const routes = await findRouteOf(instances, options);
      return new Generation(options, { instances, paths, routes });
    } catch (error) {
      await closeAll(instances, lender);
      for (const { definition, mark } of given.plugins) {
        stopTimers(definition);
        mark?.close();
      }
      const message = `Cannot load the plugins of ${listener}: ${messageOf(error)}`;
      throw new ProxyError("plugin_failed", message, { cause: error });
    }
  }

  /** `undefined`: no route matches. Throws the error of the route plugin, with the plugin's name. */
  planOf(request: HttpRequest): RoutePlan | undefined {
    const all = this.#plansOf(request);
    return all && pickSplit(all.plans, all.chance);
  }

  /** The plans of all splits of the matched route; {@link planOf} picks one. */
  plansOf(request: HttpRequest): readonly RoutePlan[] {
    return this.#plansOf(request)?.plans ?? [];
  }

  /** Runs a request through the plugins for which {@link isDry} is true, without sending it. */
  dryRun(request: PluginRequest, exchange: Exchange, split: number): DryRun {
    return new DryRun(request, { layers: this, exchange, split });
  }

  /** Whether the effect of the plugin on a request can be found without sending it. */
  isDry(name: string): boolean {
    const instance = this.#instances.find(({ place }) => place.definition.name === name);
    return DRY_PLUGINS.has(instance?.place.builtIn ?? "");
  }

  #plansOf(request: HttpRequest): RoutePlans | undefined {
    const { find, chooser } = this.#routes;
    if (chooser?.health.isBarred) {
      throw new TypeError(`${chooser.place.definition.name}: ${chooser.health.whyBroken}`);
    }
    const outer = chooser?.health.enter(IN.route) ?? 0;
    let route: Route | undefined;
    try {
      route = find(request);
    } catch (error) {
      const reason = faultOf(error);
      chooser?.health.failed(reason, { hook: "onRoutes" });
      throw new TypeError(`${chooser?.place.definition.name}: ${reason}`);
    } finally {
      chooser?.health.leave(outer);
    }
    return route && this.#plans.get(route);
  }

  /** The layers of an unchanged request in order, for `explain`. Without a plan: only the guards. */
  layersOf(plan: RoutePlan | undefined): LayerView[] {
    const configs = this.#placeOf(plan)?.configs ?? {};
    return [...this.guards, ...plan?.layers ?? []].flatMap(({ name, phase, routeConfig }) => {
      const instance = this.#instances.find(({ place }) => place.definition.name === name);
      if (!instance) return [];
      const { place: { config, onFailure }, health: { isBroken } } = instance;
      const own = routeConfig === undefined ? undefined : configs[name];
      return [{ name, phase, onFailure, isBroken, config, routeConfig: own }];
    });
  }

  /** The plugin configuration of the split of a plan, for `explain`; empty: the split has none. */
  splitConfigsOf(plan: RoutePlan): Readonly<Record<string, unknown>> {
    const splits = this.#placeOf(plan)?.splits ?? [];
    return splits.find(({ resolver }) => resolver === plan.resolver)?.configs ?? {};
  }

  #placeOf(plan: RoutePlan | undefined): RoutePlugins | undefined {
    return this.#options.routes.find(({ route }) => route === plan?.route);
  }

  get log(): Log {
    return this.#options.lender.log;
  }

  /** A service that a plugin calls no longer exists. */
  lacksCallee(callees: Callees | undefined): boolean {
    const names = this.#instances.flatMap(({ host }) => host.calls.names);
    return names.some((name) => callees?.whyNot(name) !== undefined);
  }

  get plugins(): readonly string[] {
    return this.#instances.map(({ place }) => place.definition.name);
  }

  get judgesConnections(): boolean {
    return this.#connectionLayers.length > 0;
  }

  /** Calls `onKnown` once; `undefined`: the connection may stay. */
  judgeConnection(connection: Connection, { deadlines, onKnown }: ConnectionHooksOptions): void {
    this.enter();
    new ConnectionHooks(connection, this.#connectionLayers, {
      deadlines,
      onKnown: (refusal) => {
        this.leave();
        onKnown(refusal);
      },
    }).run();
  }

  enter(): void {
    this.#began++;
    this.#users++;
  }

  leave(): void {
    if (--this.#users === 0 && this.#isRetired) void this.close();
  }

  /** Closes after the last exchange, or at the drain limit. Resolves when it is closed. */
  retire(): Promise<void> {
    if (this.#isRetired) return this.#closed.promise;
    this.#isRetired = true;
    for (const { health } of this.#instances) health.retire();
    if (this.#users === 0) return this.close();
    const { listener, number = 0, lender: { clock, log } } = this.#options;
    this.#drainTimer = clock.after(DRAIN_LIMIT_MS, () => {
      const facts = { listener, generation: number, exchanges: this.#users };
      log.warn("plugins closed: exchanges still held them after five minutes", facts);
      void this.close();
    });
    return this.#closed.promise;
  }

  /** Closes the plugins at once. Resolves when they are closed, within seconds. */
  close(): Promise<void> {
    if (this.isClosed) return this.#closed.promise;
    this.#isRetired = this.isClosed = true;
    this.#drainTimer?.cancel();
    void closeAll(this.#instances, this.#options.lender).then(() => this.#closed.resolve());
    return this.#closed.promise;
  }

  #routesOf(plugin: string): readonly string[] {
    const hasIt = (configs: object) => Object.hasOwn(configs, plugin);
    return this.#options.routes
      .filter(({ configs, splits }) =>
        splits ? splits.some((split) => hasIt(split.configs)) : hasIt(configs)
      )
      .map(({ route }) => route.name);
  }

  /** A plugin of that name, under any name of this listener, failed where nothing waited for it. */
  failedLoosely(plugin: string, reason: string): void {
    for (const { place: { definition }, health } of this.#instances) {
      const { name: own } = Object.getPrototypeOf(definition) as Partial<typeof definition>;
      if (definition.name === plugin || own === plugin) health.failedLoosely(reason);
    }
  }

  views(): PluginView[] {
    const { listener, number = 0 } = this.#options;
    return this.#instances.map(({ place, health, isUnused }) => ({
      listener,
      name: place.definition.name,
      at: place.at,
      ...place.origin,
      routes: this.#routesOf(place.definition.name),
      phase: place.definition.phase,
      onFailure: place.onFailure,
      generation: number,
      state: this.#isRetired
        ? "draining"
        : isUnused
        ? "unused"
        : health.isBroken
        ? "broken"
        : "serving",
      exchanges: this.#began,
      failures: health.failures,
      lastFailure: health.lastFailure ?? null,
    }));
  }
}

function layerOf({ place: { definition, onFailure }, plugin, health }: PluginInstance): Layer[] {
  if (!plugin.onRequest) return [];
  const { name, phase } = definition;
  const mayBeSkipped = onFailure === "skip";
  return [{ name, phase, plugin, routeConfig: undefined, mayBeSkipped, health }];
}

function connectionLayerOf(
  { place: { definition: { name }, onFailure }, plugin, health }: PluginInstance,
): ConnectionLayer[] {
  if (!plugin.onConnection) return [];
  const onConnection = plugin.onConnection.bind(plugin);
  return [{ name, onConnection, mayBeSkipped: onFailure === "skip", health }];
}
