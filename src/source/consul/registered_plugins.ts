/**
 * Plugins that a registration names (`postern_plugins`). Their files are read when the list changes and
 * on every reload; until new ones can be used the previous ones stay.
 *
 * @module
 */

import * as v from "valibot";
import { formatPath, problemOf } from "../../base/schema.ts";
import {
  INBOUND_KEY,
  type PluginUse,
  type Refusal,
  sameContent,
  type Snapshot,
} from "../../snapshot/mod.ts";
import { type PluginCode, PluginReader, PLUGINS, pluginUses } from "../plugins/read_plugins.ts";
import type { PluginWatch } from "../plugins/plugin_watch.ts";

/** Plugins of the public listener. */
interface UsedPlugins {
  readonly uses: readonly PluginUse[];
  readonly code: PluginCode;
}

export interface PluginsHeld {
  /** `undefined`: none could be used so far, or their files are being read. */
  readonly used: UsedPlugins | undefined;
  readonly refused: readonly Refusal[];
}

const KEY = "postern_plugins";
export const NO_PLUGINS: PluginsHeld = { used: { uses: [], code: {} }, refused: [] };

export class RegisteredPlugins {
  readonly #onChange: () => void;
  readonly #watch: PluginWatch | undefined;
  #held: PluginsHeld = { used: undefined, refused: [] };
  #written: { readonly value: unknown } | undefined;
  #reading: Promise<void> = Promise.resolve();
  #closed = false;

  /** `onChange`: {@link held} has changed. */
  constructor(onChange: () => void, watch?: PluginWatch) {
    this.#onChange = onChange;
    this.#watch = watch;
    watch?.start(() => void this.refresh());
  }

  get held(): PluginsHeld {
    return this.#held;
  }

  /** `value`: the list of the newest registration, unparsed. */
  follow(value: unknown): void {
    if (this.#written && sameContent(this.#written.value, value)) return;
    this.#written = { value };
    if (value === undefined) this.#held = NO_PLUGINS;
    else void this.refresh();
  }

  /** Reads the files again. True: all can be used. */
  async refresh(): Promise<boolean> {
    this.#reading = this.#reading.then(() => this.#read());
    await this.#reading;
    return this.#held.refused.length === 0;
  }

  close(): void {
    this.#closed = true;
    this.#watch?.close();
  }

  async #read(): Promise<void> {
    const written = this.#written;
    if (!written || written.value === undefined || this.#closed) return;
    const read = await readList(written.value, this.#watch);
    // The list may have changed meanwhile; the new one is read next.
    if (this.#closed || this.#written !== written) return;
    this.#held = { used: read.used ?? this.#held.used, refused: read.refused };
    this.#onChange();
  }
}

/** The plugins of `held`, or else those of `previous`; `undefined`: the listener stays closed. */
export function pluginsInForce(
  { used }: PluginsHeld,
  previous: Snapshot | undefined,
): UsedPlugins | undefined {
  if (used) return used;
  const inbound = previous?.inbound[INBOUND_KEY];
  if (!previous || !inbound) return undefined;
  const uses = inbound.plugins.filter(({ at }) => at.startsWith(KEY));
  const code = Object.entries(previous.pluginCode).map(([key, { version: _, ...content }]) => [
    key,
    content,
  ]);
  return { uses, code: Object.fromEntries(code) };
}

/** Plugins of config entries come first; the registration's own plugin replaces one of the same name. */
export function joinPlugins(
  ofEntries: readonly PluginUse[],
  listed: readonly PluginUse[],
): readonly PluginUse[] {
  const names = new Set(listed.map(({ plugin }) => plugin));
  return [...ofEntries.filter(({ plugin }) => !names.has(plugin)), ...listed];
}

/** The part that the listener waits for. */
export function pluginsLack({ refused }: PluginsHeld): string {
  const reasons = refused.map(({ reason }) => reason).join("; ");
  return reasons ? `plugins that can be used: ${reasons}` : "plugins, whose files are being read";
}

async function readList(value: unknown, watch: PluginWatch | undefined): Promise<PluginsHeld> {
  const parsed = v.safeParse(PLUGINS, listOf(value));
  const reader = new PluginReader(undefined, watch);
  const list = parsed.success ? await reader.read(parsed.output, [KEY]) : undefined;
  const problems = parsed.success
    ? reader.problems
    : parsed.issues.map(problemOf).map(({ path, message }) => ({ path: [KEY, ...path], message }));
  if (problems.length === 0) {
    return { used: { uses: pluginUses(list, KEY) ?? [], code: reader.code }, refused: [] };
  }
  const reason = problems.map(({ path, message }) => `${formatPath(path)} ${message}`).join("; ");
  return { used: undefined, refused: [{ what: "plugins", reason }] };
}

/** HCL writes a list of one as its element, and a map as a list of one. The content of `config` stays. */
function listOf(value: unknown): unknown {
  const list = Array.isArray(value) ? value : [value];
  return list.map((entry) => {
    if (typeof entry !== "object" || entry === null) return entry;
    const { config, allow } = entry;
    return {
      ...entry,
      ...(Array.isArray(config) && config.length === 1 && { config: config[0] }),
      ...(typeof allow === "string" && { allow: [allow] }),
    };
  });
}
