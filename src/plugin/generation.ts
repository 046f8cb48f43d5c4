/**
 * The plugins of one listener, made for one configuration: all of them, or none. It serves the exchanges
 * that began on it to their end, and closes its plugins after the last.
 *
 * @module
 */

import { type Deadlines, messageOf, ProxyError, type Random, type Timer } from "../base/mod.ts";
import { evenChance, pickSplit } from "../chain/mod.ts";
import type { Connection, Exchange, HttpRequest, Log, Phase, Route } from "./api.ts";
import { stopTimers } from "./code.ts";
import { faultOf } from "./source_positions.ts";
import type { Callees } from "./callees.ts";
import {
  ConnectionHooks,
  type ConnectionLayer,
  type ConnectionRefusal,
} from "./connection_hooks.ts";
import {
  closeAll,
  createInstances,
  findRouteOf,
  type GenerationOptions,
  type PluginInstance,
  type RouteLookup,
  type RoutePath,
  type RoutePlugins,
  routeWaysOf,
} from "./instances.ts";
import { isBuiltIn } from "./built_in.ts";
import { DRY_PLUGINS, type DryRun, dryRun } from "./dry_run.ts";
import type { PluginRequest } from "./messages.ts";
import type { Layer, RoutePlan } from "./layer_stack.ts";
import { type AnyPlugin, PHASES } from "./registry.ts";
import type { LastFailure } from "./plugin_health.ts";

/** A plugin of a generation, for people. */
export interface PluginView {
  readonly listener: string;
  readonly name: string;
  readonly phase: Phase;
  readonly onFailure: "refuse" | "skip";
  readonly generation: number;
  /** `broken`: it failed too often, and is not asked for a while. */
  readonly state: "serving" | "draining" | "broken";
  /** Exchanges, and connections that were looked at, since its generation began. */
  readonly exchanges: number;
  readonly failures: number;
  /** `null`: it never failed. */
  readonly lastFailure: LastFailure | null;
}

/** A layer that a request would meet, for people. */
export interface LayerView extends Pick<PluginView, "name" | "phase" | "onFailure"> {
  readonly isBroken: boolean;
  /** As they were written; `undefined`: its route says nothing to it. */
  readonly config: unknown;
  readonly routeConfig: unknown;
}

/** After this nobody keeps a generation that another one has taken the place of. */
const DRAIN_LIMIT_MS = 300_000;

/** Of one route: those of its splits, and what says whose turn it is. */
interface RoutePlans {
  readonly plans: readonly (RoutePlan & { readonly weight: number })[];
  readonly chance: Random;
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
  #isClosed = false;
  #drainTimer: Timer | undefined;

  private constructor(options: GenerationOptions, made: {
    readonly instances: readonly PluginInstance[];
    readonly ways: ReadonlyMap<Route, readonly RoutePath[]>;
    readonly routes: RouteLookup;
  }) {
    const { instances, ways } = made;
    this.#options = options;
    this.#instances = instances;
    this.guards = layersOf(instances, ({ phase }) => phase === "guard", undefined);
    this.#plans = new Map([...ways].map(([route, all]) => {
      const plans = all.map(({ weight, resolver, configs }) => ({
        ...{ route, weight, resolver },
        layers: layersOf(instances, isOnRoute(configs), configs),
      }));
      return [route, { plans, chance: evenChance(options.lender.random) }];
    }));
    this.#connectionLayers = connectionLayersOf(instances);
    this.#routes = made.routes;
  }

  /** Throws a ProxyError `plugin_failed` that names plugin and place; what was made is closed then. */
  static async make(options: GenerationOptions): Promise<Generation> {
    const { listener, lender } = options;
    let instances: readonly PluginInstance[] = [];
    try {
      const ways = await routeWaysOf(options);
      instances = await createInstances(options);
      const routes = await findRouteOf(instances, options);
      return new Generation(options, { instances, ways, routes });
    } catch (error) {
      await closeAll(instances, lender);
      for (const { definition } of options.plugins) stopTimers(definition);
      const reason = messageOf(error);
      throw new ProxyError("plugin_failed", `Cannot load the plugins of ${listener}: ${reason}`, {
        cause: error,
      });
    }
  }

  /** `undefined`: no route takes it. Throws, with the plugin's name, what the plugin that picks one throws. */
  planOf(request: HttpRequest): RoutePlan | undefined {
    const all = this.#plansOf(request);
    return all && pickSplit(all.plans, all.chance);
  }

  /** Those of all splits of the route that takes it, of which {@link planOf} picks one. */
  plansOf(request: HttpRequest): readonly RoutePlan[] {
    return this.#plansOf(request)?.plans ?? [];
  }

  /** What becomes of a request that is never sent, by the plugins that {@link isDry} tells. */
  dryRun(request: PluginRequest, exchange: Exchange, split: number): DryRun {
    return dryRun(request, { layers: this, exchange, split });
  }

  /** Whether what that plugin does to a request can be found out without sending it. */
  isDry(name: string): boolean {
    const instance = this.#instances.find(({ place }) => place.definition.name === name);
    return instance !== undefined && DRY_PLUGINS.has(name) && isBuiltIn(instance.place.definition);
  }

  #plansOf(request: HttpRequest): RoutePlans | undefined {
    const { find, chooser } = this.#routes;
    let route: Route | undefined;
    try {
      route = find(request);
    } catch (error) {
      const reason = faultOf(error);
      chooser?.standing.failed(reason, { hook: "onRoutes" });
      throw new TypeError(`${chooser?.place.definition.name}: ${reason}`);
    }
    return route && this.#plans.get(route);
  }

  /**
   * For people: the layers of a request in their order, as if none of them changed it, with what its route
   * asks of them. Without a plan: those that stand before the route is known.
   */
  layersOf(plan: RoutePlan | undefined): LayerView[] {
    const configs = this.#placeOf(plan)?.configs ?? {};
    return [...this.guards, ...plan?.layers ?? []].flatMap(({ name, phase, routeConfig }) => {
      const instance = this.#instances.find(({ place }) => place.definition.name === name);
      if (!instance) return [];
      const { place: { config, onFailure }, standing: { isBroken } } = instance;
      const own = routeConfig === undefined ? undefined : configs[name];
      return [{ name, phase, onFailure, isBroken, config, routeConfig: own }];
    });
  }

  /** For people: what the split of a plan asks of plugins, where it asks for anything of its own. */
  asksOf(plan: RoutePlan): Readonly<Record<string, unknown>> {
    const splits = this.#placeOf(plan)?.splits ?? [];
    return splits.find(({ resolver }) => resolver === plan.resolver)?.configs ?? {};
  }

  #placeOf(plan: RoutePlan | undefined): RoutePlugins | undefined {
    return this.#options.routes.find(({ route }) => route === plan?.route);
  }

  /** For what concerns an exchange and no plugin alone. */
  get log(): Log {
    return this.#options.lender.log;
  }

  /** Somebody that a plugin asks is not there any more. */
  isForsaken(callees: Callees | undefined): boolean {
    const names = this.#instances.flatMap(({ host }) => host.calls.names);
    return names.some((name) => callees?.whyNot(name) !== undefined);
  }

  /** Its plugins' names. */
  get plugins(): readonly string[] {
    return this.#instances.map(({ place }) => place.definition.name);
  }

  /** Whether some plugin looks at connections. */
  get looksAtConnections(): boolean {
    return this.#connectionLayers.length > 0;
  }

  /** `onKnown`: once, with why it may not stay, if that is so. */
  lookAt(connection: Connection, { deadlines, onKnown }: {
    readonly deadlines: Pick<Deadlines, "after">;
    readonly onKnown: (refusal: ConnectionRefusal | undefined) => void;
  }): void {
    this.enter();
    const hooks = new ConnectionHooks(connection, this.#connectionLayers, {
      deadlines,
      onKnown: (refusal) => {
        this.leave();
        onKnown(refusal);
      },
    });
    hooks.ask();
  }

  enter(): void {
    this.#began++;
    this.#users++;
  }

  leave(): void {
    if (--this.#users === 0 && this.#isRetired) void this.close();
  }

  /** Its plugins were closed, though some exchange of it may still go on. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /**
   * Another one serves what begins from now on; closes after the last exchange, or when that has taken
   * too long. Resolves when it is closed.
   */
  retire(): Promise<void> {
    if (this.#isRetired) return this.#closed.promise;
    this.#isRetired = true;
    for (const { standing } of this.#instances) standing.retire();
    if (this.#users === 0) return this.close();
    const { listener, number = 0, lender: { clock, log } } = this.#options;
    this.#drainTimer = clock.after(DRAIN_LIMIT_MS, () => {
      const facts = { listener, generation: number, exchanges: this.#users };
      log.warn("plugins closed: exchanges still held them after five minutes", facts);
      void this.close();
    });
    return this.#closed.promise;
  }

  /** At once. Resolves when that is done, and after some seconds at the latest. */
  close(): Promise<void> {
    if (this.#isClosed) return this.#closed.promise;
    this.#isRetired = this.#isClosed = true;
    this.#drainTimer?.cancel();
    void closeAll(this.#instances, this.#options.lender).then(() => this.#closed.resolve());
    return this.#closed.promise;
  }

  views(): PluginView[] {
    const { listener, number = 0 } = this.#options;
    return this.#instances.map(({ place: { definition, onFailure }, standing }) => ({
      listener,
      name: definition.name,
      phase: definition.phase,
      onFailure,
      generation: number,
      state: this.#isRetired ? "draining" : standing.isBroken ? "broken" : "serving",
      exchanges: this.#began,
      failures: standing.failures,
      lastFailure: standing.lastFailure ?? null,
    }));
  }
}

function isOnRoute(configs: ReadonlyMap<string, unknown>) {
  return ({ phase, name }: AnyPlugin) => phase === "guard" ? configs.has(name) : phase !== "route";
}

function layersOf(
  instances: readonly PluginInstance[],
  isWanted: (definition: AnyPlugin) => boolean,
  configs: ReadonlyMap<string, unknown> | undefined,
): Layer[] {
  return inOrder(instances).flatMap(({ place: { definition, onFailure }, plugin, standing }) => {
    const { name, phase } = definition;
    if (!isWanted(definition) || !plugin.onRequest) return [];
    return {
      name,
      phase,
      plugin,
      routeConfig: configs?.get(name),
      mayBeSkipped: onFailure === "skip",
      standing,
    };
  });
}

function connectionLayersOf(instances: readonly PluginInstance[]): ConnectionLayer[] {
  return inOrder(instances).flatMap(({ place: { definition, onFailure }, plugin, standing }) => {
    if (!plugin.onConnection) return [];
    return {
      name: definition.name,
      onConnection: plugin.onConnection.bind(plugin),
      mayBeSkipped: onFailure === "skip",
      standing,
    };
  });
}

/** Outermost first. */
function inOrder(instances: readonly PluginInstance[]): PluginInstance[] {
  return PHASES.flatMap((phase) =>
    instances.filter(({ place }) => place.definition.phase === phase)
  );
}
