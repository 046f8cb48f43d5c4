/**
 * The plugins of all listeners of a data path: made for a snapshot before it is in force, all or none, and
 * kept where nothing of their configuration has changed.
 *
 * @module
 */

import { messageOf, ProxyError } from "../base/mod.ts";
import { type PluginUse, sameContent, type Snapshot } from "../snapshot/mod.ts";
import type { Callees } from "./callees.ts";
import { loadBuiltIn } from "./built_in.ts";
import { loadCode, stopTimers } from "./code.ts";
import { faultOf } from "./source_positions.ts";
import { Generation, type PluginView } from "./generation.ts";
import type { HostDeps } from "./host.ts";
import type { RoutePlugins } from "./instances.ts";
import type { AnyPlugin } from "./registry.ts";
import { configOf } from "./schema.ts";
import { forgetStanding } from "./plugin_health.ts";

/** `undefined`: there is none of that name. */
export type LoadPlugin = (name: string) => Promise<AnyPlugin | undefined>;

interface MadeOf extends Pick<Snapshot, "version" | "pluginCode"> {
  /** Whom plugins may ask; absent: nobody. */
  readonly callees?: Callees;
}

/** What stands around a listener. */
export interface ListenerPlugins {
  readonly uses: readonly PluginUse[];
  /** It knows of no requests. */
  readonly carriesBytes: boolean;
  /** Of its requests; the last takes what no other did. */
  readonly routes: readonly RoutePlugins[];
}

/** Of each listener, by its name. */
export type PluginsOf = ReadonlyMap<string, ListenerPlugins>;

interface Held {
  readonly wanted: ListenerPlugins;
  readonly generation: Generation;
}

/** To be published, or given up. */
export interface PreparedGenerations {
  readonly all: ReadonlyMap<string, Held>;
  readonly fresh: readonly Generation[];
}

export class Generations {
  readonly #lender: HostDeps;
  readonly #load: LoadPlugin;
  #held: ReadonlyMap<string, Held> = new Map();
  /** Others have taken their place, and exchanges of before go on. */
  readonly #draining = new Set<Generation>();

  constructor(lender: HostDeps, load: LoadPlugin = loadBuiltIn) {
    this.#lender = lender;
    this.#load = load;
  }

  of(listener: string): Generation | undefined {
    return this.#held.get(listener)?.generation;
  }

  /**
   * `of`: with the number of those that are made, and the code of plugins from files. Throws a ProxyError
   * that names listener, plugin and place; then nothing that was made stays.
   */
  async prepare(wanted: PluginsOf, of: MadeOf): Promise<PreparedGenerations> {
    const all = new Map<string, Held>();
    const fresh: Generation[] = [];
    try {
      for (const [listener, plugins] of wanted) {
        const held = this.#held.get(listener);
        const isKept = held && sameContent(held.wanted, plugins) &&
          !held.generation.isForsaken(of.callees);
        if (isKept) {
          all.set(listener, held);
          continue;
        }
        const generation = await this.#make(listener, plugins, of);
        fresh.push(generation);
        all.set(listener, { wanted: plugins, generation });
      }
      checkNames(all, of);
    } catch (error) {
      this.giveUp({ all, fresh });
      throw error;
    }
    return { all, fresh };
  }

  async #make(
    listener: string,
    { uses, carriesBytes, routes }: ListenerPlugins,
    { version: number, pluginCode, callees }: MadeOf,
  ): Promise<Generation> {
    const plugins = await Promise.all(uses.map(async (use) => {
      const { config, onFailure, at } = use;
      return {
        definition: await definitionOf(use, { pluginCode, load: this.#load }),
        config,
        onFailure,
        at,
      };
    }));
    const lender = callees ? { ...this.#lender, callees } : this.#lender;
    return Generation.make({ listener, number, carriesBytes, plugins, routes, lender });
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

  /** What was prepared and is not to be published. */
  giveUp({ all, fresh }: PreparedGenerations): void {
    for (const generation of fresh) void generation.retire();
    for (const [listener, { generation }] of all) {
      if (fresh.includes(generation)) this.#forget(listener, generation);
    }
  }

  /** The counts of plugins that the listener does not have. */
  #forget(listener: string, { plugins }: Generation): void {
    const held = this.of(listener)?.plugins;
    for (const plugin of plugins) {
      if (!held?.includes(plugin)) forgetStanding(this.#lender.stats, { plugin, listener });
    }
  }

  /** Those that serve, and those whose exchanges are not over. */
  views(): PluginView[] {
    return this.#all().flatMap((generation) => generation.views());
  }

  /** At once, all of them; resolves when that is done. What is still asked of them they answer. */
  async close(): Promise<void> {
    await Promise.all(this.#all().map((generation) => generation.close()));
  }

  #all(): Generation[] {
    return [...[...this.#held.values()].map(({ generation }) => generation), ...this.#draining];
  }
}

/** Metrics and shared state go by a plugin's name: two of a name would get into each other's. */
function checkNames(all: PreparedGenerations["all"], { pluginCode }: MadeOf): void {
  const paths = new Map<string, string>();
  for (const { wanted: { uses }, generation: { plugins } } of all.values()) {
    for (const [index, { file, at }] of uses.entries()) {
      const name = plugins[index] ?? "";
      const path = file ? pluginCode[file.code]?.path ?? "" : "the executable";
      const other = paths.get(name) ?? path;
      paths.set(name, other);
      if (other === path) continue;
      const reason = `${at}.use: ${path} calls itself ${name}, and so does ${other}`;
      throw new ProxyError("plugin_failed", reason);
    }
  }
}

/** Why it could not be used, as far as that shows before it is made: its code, its configuration. */
export async function whyNotUsable(
  use: PluginUse,
  { pluginCode }: Pick<Snapshot, "pluginCode">,
): Promise<string | undefined> {
  try {
    const definition = await definitionOf(use, { pluginCode, load: loadBuiltIn });
    stopTimers(definition);
    await configOf(definition.config, use.config, `${use.at}.config`);
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

async function definitionOf(
  { plugin, file, at }: PluginUse,
  from: Pick<Snapshot, "pluginCode"> & { readonly load: LoadPlugin },
): Promise<AnyPlugin> {
  if (!file) {
    const definition = await from.load(plugin);
    if (definition) return definition;
    throw new ProxyError("plugin_failed", `${at}.use: there is no plugin "${plugin}"`);
  }
  try {
    const part = from.pluginCode[file.code];
    if (!part) throw new TypeError("its code did not come with the snapshot");
    return await loadCode(part, file.allow);
  } catch (error) {
    const reason = `Cannot load ${plugin} (${at}.use): ${faultOf(error)}`;
    throw new ProxyError("plugin_failed", reason, { cause: error });
  }
}
