/**
 * The plugins of all listeners of a data path: made for a snapshot before it is in force, all or none, and
 * kept where nothing of their configuration has changed.
 *
 * @module
 */

import { ProxyError } from "../base/mod.ts";
import { type PluginUse, sameContent } from "../snapshot/mod.ts";
import type { Route } from "./api.ts";
import { loadBuiltIn } from "./built_in.ts";
import { Generation } from "./generation.ts";
import type { Lender } from "./host.ts";
import type { AnyPlugin } from "./registry.ts";

/** `undefined`: there is none of that name. */
export type LoadPlugin = (name: string) => Promise<AnyPlugin | undefined>;

/** Of one listener, by its name. */
export type PluginsOf = ReadonlyMap<string, readonly PluginUse[]>;

interface Held {
  readonly uses: readonly PluginUse[];
  readonly generation: Generation;
}

/** To be published, or given up. */
export interface PreparedGenerations {
  readonly all: ReadonlyMap<string, Held>;
  readonly fresh: readonly Generation[];
}

export class Generations {
  readonly #lender: Lender;
  readonly #load: LoadPlugin;
  #held: ReadonlyMap<string, Held> = new Map();

  constructor(lender: Lender, load: LoadPlugin = loadBuiltIn) {
    this.#lender = lender;
    this.#load = load;
  }

  of(listener: string): Generation | undefined {
    return this.#held.get(listener)?.generation;
  }

  /** Throws a ProxyError that names listener, plugin and place; then nothing that was made stays. */
  async prepare(wanted: PluginsOf): Promise<PreparedGenerations> {
    const all = new Map<string, Held>();
    const fresh: Generation[] = [];
    try {
      for (const [listener, uses] of wanted) {
        const held = this.#held.get(listener);
        if (held && sameContent(held.uses, uses)) {
          all.set(listener, held);
          continue;
        }
        const generation = await this.#make(listener, uses);
        fresh.push(generation);
        all.set(listener, { uses, generation });
      }
    } catch (error) {
      for (const generation of fresh) generation.retire();
      throw error;
    }
    return { all, fresh };
  }

  async #make(listener: string, uses: readonly PluginUse[]): Promise<Generation> {
    const plugins = await Promise.all(uses.map(async ({ plugin, config, onFailure, at }) => {
      const definition = await this.#load(plugin);
      if (definition) return { definition, config, onFailure, at };
      throw new ProxyError("plugin_failed", `${at}.use: there is no plugin "${plugin}"`);
    }));
    const routes = [{ route: ONLY, configs: {}, at: "" }];
    return Generation.make({ listener, plugins, routes, lender: this.#lender });
  }

  publish({ all }: PreparedGenerations): void {
    const before = this.#held;
    this.#held = all;
    for (const [listener, { generation }] of before) {
      if (all.get(listener)?.generation !== generation) generation.retire();
    }
  }

  /** What was prepared and is not to be published. */
  giveUp({ fresh }: PreparedGenerations): void {
    for (const generation of fresh) generation.retire();
  }
}

const ONLY: Route = { name: "default", service: "", match: null };
