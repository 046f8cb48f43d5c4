/** The plugin generations of all listeners, made before a snapshot is published, all or none. @module */

import { messageOf, ProxyError } from "../base/mod.ts";
import { type PluginUse, sameContent, type Snapshot } from "../snapshot/mod.ts";
import type { Callees } from "./callees.ts";
import { loadCode, renamed, stopTimers } from "./code.ts";
import { faultOf } from "./source_positions.ts";
import { Generation, type PluginView } from "./generation.ts";
import { type HookMark, keyOf } from "./hook_marks.ts";
import type { HostDeps } from "./host.ts";
import { CREATE_LIMIT_MS, originOf, type RoutePlugins, within } from "./instances.ts";
import { type AnyPlugin, configOf } from "./definition.ts";
import { removeHealthStats } from "./plugin_health.ts";

/** `undefined`: there is no plugin of that name. */
export type LoadPlugin = (name: string) => Promise<AnyPlugin | undefined>;

interface GenerationSource extends Pick<Snapshot, "version" | "pluginCode"> {
  /** Services that plugins may call; absent: none. */
  readonly callees?: Callees;
}

export interface ListenerPlugins {
  readonly uses: readonly PluginUse[];
  /** The listener carries bytes, not requests. */
  readonly carriesBytes: boolean;
  /** The routes of requests; the last matches every request. */
  readonly routes: readonly RoutePlugins[];
}

/** The plugins of each listener, by its name. */
export type PluginsOf = ReadonlyMap<string, ListenerPlugins>;

/** For the plugins of one listener together; the data path has somewhat longer for all listeners. */
const LISTENER_LIMIT_MS = 8_000;

interface Held {
  readonly wanted: ListenerPlugins;
  readonly generation: Generation;
}

export interface PreparedGenerations {
  readonly all: ReadonlyMap<string, Held>;
  readonly fresh: readonly Generation[];
}

/** Why a listener cannot have the plugins that it should have. Plain data, sent between threads. */
export interface ListenerRefusal {
  /** As in {@link PluginsOf}. */
  readonly listener: string;
  readonly reason: string;
  /** A plugin held the data worker: another try may cost another worker. */
  readonly isHeld?: true;
}

/** Some listeners cannot have their new plugins. All others could. */
export class PluginsRefused extends ProxyError {
  readonly refusals: readonly ListenerRefusal[];

  constructor(refusals: readonly ListenerRefusal[]) {
    super("plugin_failed", [...new Set(refusals.map(({ reason }) => reason))].join("; "));
    this.refusals = refusals;
  }
}

export class Generations {
  readonly #lender: HostDeps;
  readonly #load: LoadPlugin;
  #held: ReadonlyMap<string, Held> = new Map();
  /** Replaced generations that still serve exchanges. */
  readonly #draining = new Set<Generation>();

  constructor(lender: HostDeps, load: LoadPlugin) {
    this.#lender = lender;
    this.#load = load;
  }

  of(listener: string): Generation | undefined {
    return this.#held.get(listener)?.generation;
  }

  /** Throws {@link PluginsRefused} for all listeners that fail; new generations are closed then. */
  async prepare(wanted: PluginsOf, source: GenerationSource): Promise<PreparedGenerations> {
    const fresh: Generation[] = [];
    const refusals: ListenerRefusal[] = [];
    // Together, so that a slow plugin takes no time from other listeners.
    const made = await Promise.all(
      [...wanted].map(async ([listener, plugins]): Promise<[string, Held | undefined]> => {
        const held = this.#held.get(listener);
        const isSame = held && sameContent(held.wanted, plugins);
        if (isSame && !held.generation.lacksCallee(source.callees)) return [listener, held];
        try {
          const generation = await this.#make(listener, plugins, source);
          fresh.push(generation);
          return [listener, { wanted: plugins, generation }];
        } catch (error) {
          refusals.push({ listener, reason: messageOf(error) });
          return [listener, undefined];
        }
      }),
    );
    const all = new Map(made.flatMap(([listener, held]) => held ? [[listener, held]] : []));
    refusals.push(...sharedNames(all, { ...source, fresh }));
    if (refusals.length === 0) return { all, fresh };
    this.giveUp({ all, fresh });
    throw new PluginsRefused(refusals);
  }

  async #make(
    listener: string,
    { uses, carriesBytes, routes }: ListenerPlugins,
    { version: number, pluginCode, callees }: GenerationSource,
  ): Promise<Generation> {
    const { clock } = this.#lender;
    const untilMs = clock.monotonic() + LISTENER_LIMIT_MS;
    const marks = this.#marksOf(listener, uses);
    const plugins = await Promise.all(uses.map(async (use, index) => {
      const { as, config, onFailure, isForAll = false, at, file } = use;
      const mark = marks[index];
      const startedMs = clock.monotonic();
      const own = await definitionOf(use, { pluginCode, load: this.#load, clock, mark });
      const importMs = mark && clock.monotonic() - startedMs;
      const definition = as === undefined ? own : renamed(own, as);
      mark?.named(definition.name);
      const loaded = file ? { mark, ...importMs && { importMs } } : { builtIn: own.name };
      const place = { origin: originOf(use), onFailure, isForAll, at };
      return { definition, config, ...use.routes && { routes: use.routes }, ...loaded, ...place };
    })).catch((error) => {
      for (const mark of marks) mark?.close();
      throw error;
    });
    const lender = callees ? { ...this.#lender, callees } : this.#lender;
    return Generation.make({ listener, number, carriesBytes, plugins, routes, lender, untilMs });
  }

  #marksOf(listener: string, uses: readonly PluginUse[]): readonly (HookMark | undefined)[] {
    const { marks } = this.#lender;
    if (!marks || !uses.some(({ file }) => file)) return [];
    return uses.map(({ plugin, as = plugin, onFailure, at, file }) =>
      file && marks.open({ plugin: as, listener, onFailure, at, key: keyOf(listener, at, uses) })
    );
  }

  publish({ all }: PreparedGenerations): void {
    const before = this.#held;
    this.#held = all;
    for (const [listener, { generation }] of before) {
      if (all.get(listener)?.generation === generation) continue;
      this.#draining.add(generation);
      void generation.retire().then(() => this.#draining.delete(generation));
      this.#forget(listener, generation);
    }
  }

  /** Drops prepared generations that will not be published. */
  giveUp({ all, fresh }: PreparedGenerations): void {
    for (const generation of fresh) void generation.retire();
    for (const [listener, { generation }] of all) {
      if (fresh.includes(generation)) this.#forget(listener, generation);
    }
  }

  /** Removes the metrics of plugins that the listener does not have. */
  #forget(listener: string, { plugins }: Generation): void {
    const held = this.of(listener)?.plugins;
    for (const plugin of plugins) {
      if (!held?.includes(plugin)) removeHealthStats(this.#lender.stats, { plugin, listener });
    }
  }

  views(): PluginView[] {
    return this.#all().flatMap((generation) => generation.views());
  }

  /** As {@link Generation.failedLoosely}. */
  failedLoosely(plugin: string, reason: string): void {
    for (const generation of this.#all()) generation.failedLoosely(plugin, reason);
  }

  /** Closes all generations at once; resolves when they are closed. Their hooks still answer. */
  async close(): Promise<void> {
    await Promise.all(this.#all().map((generation) => generation.close()));
  }

  #all(): Generation[] {
    return [...[...this.#held.values()].map(({ generation }) => generation), ...this.#draining];
  }
}

/**
 * Metrics and shared state are keyed by a plugin's name, so two files must not share one. Of two listeners
 * the one that has its plugins already keeps them.
 */
function sharedNames(
  all: PreparedGenerations["all"],
  { pluginCode, fresh }: GenerationSource & Pick<PreparedGenerations, "fresh">,
): readonly ListenerRefusal[] {
  const paths = new Map<string, string>();
  const isFresh = ({ generation }: Held) => fresh.includes(generation);
  const ordered = [...all].sort(([, a], [, b]) => Number(isFresh(a)) - Number(isFresh(b)));
  return ordered.flatMap(([listener, { wanted: { uses }, generation: { plugins } }]) => {
    for (const [index, { file, at }] of uses.entries()) {
      const name = plugins[index] ?? "";
      const path = file ? pluginCode[file.code]?.path ?? "" : "the executable";
      const other = paths.get(name) ?? path;
      paths.set(name, other);
      if (other === path) continue;
      const reason = `${at}: ${path} has the name ${name}, and so has ${other}; write "as"`;
      return [{ listener, reason }];
    }
    return [];
  });
}

interface DefinitionSource extends Pick<Snapshot, "pluginCode"> {
  /** Loads plugins that are not from files. */
  readonly load: LoadPlugin;
  readonly clock: HostDeps["clock"];
  readonly mark?: HookMark | undefined;
}

/**
 * Whether the plugin surely looks at requests alone, and so has no use at a listener that carries bytes. Its
 * code is not run: a hook for connections must be named in it. Those of the executable have none.
 */
export function isForRequests(
  { file }: PluginUse,
  { pluginCode }: Pick<Snapshot, "pluginCode">,
): boolean {
  return !file || pluginCode[file.code]?.text.includes("onConnection") === false;
}

/** Why a plugin cannot be used, judged by its code and configuration without creating it. */
export async function whyNotUsable(
  use: PluginUse,
  from: DefinitionSource,
): Promise<string | undefined> {
  try {
    const definition = await definitionOf(use, from);
    stopTimers(definition);
    await configOf(definition.config, use.config, `${use.at}.config`);
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

/** An import has the time limit of `create`. A plugin that comes too late is not used. */
export async function loadWithin(
  loading: ReturnType<typeof loadCode>,
  clock: HostDeps["clock"],
): Promise<AnyPlugin> {
  try {
    return await within(CREATE_LIMIT_MS, loading, { clock });
  } catch (error) {
    loading.then(stopTimers, () => {});
    throw error;
  }
}

async function definitionOf(
  { plugin, file, at }: PluginUse,
  from: DefinitionSource,
): Promise<AnyPlugin> {
  if (!file) {
    const definition = await from.load(plugin);
    if (definition) return definition;
    throw new ProxyError("plugin_failed", `${at}.use: there is no plugin "${plugin}"`);
  }
  try {
    const part = from.pluginCode[file.code];
    if (!part) throw new TypeError("its code did not come with the snapshot");
    const { clock, mark } = from;
    if (mark?.held?.barred === "create") throw new TypeError(mark.held.reason);
    return await loadWithin(loadCode(part, file.allow, mark), clock);
  } catch (error) {
    const reason = `Cannot load ${plugin} (${at}.use): ${faultOf(error)}`;
    throw new ProxyError("plugin_failed", reason, { cause: error });
  }
}
