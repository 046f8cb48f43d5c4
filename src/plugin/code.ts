/** Runs plugins from bundled text. Imports are limited to make them known, not safe. @module */

import { isBuiltin } from "node:module";
import process from "node:process";
import type { PluginCodePart } from "../snapshot/mod.ts";
import { rememberPlaces, rememberPlugin } from "./source_positions.ts";
import { type HookMark, IN } from "./hook_marks.ts";
import { type AnyPlugin, whyNoPlugin } from "./definition.ts";
// Bun cannot re-export it: a text import in mod.ts, beside its types, is a syntax error there.
import pluginText from "./api.ts" with { type: "text" };
import hostText from "./host_api.ts" with { type: "text" };
import messageText from "./message_api.ts" with { type: "text" };

const LOADS: Readonly<Record<string, () => Promise<unknown>>> = {
  valibot: () => import("valibot"),
  jose: () => import("jose"),
};

export const LIBRARIES: readonly string[] = Object.keys(LOADS);

const NOT_FOR_PLUGINS: Readonly<Record<string, string>> = {
  "postern": 'has types and nothing else: write "import type"',
  "postern/kit": "is there for tests only",
};

export const FOR_AUTHORS: readonly string[] = Object.keys(NOT_FOR_PLUGINS);

/** Why a plugin may not import a module, in words that follow its file's name; `undefined`: it may. */
export function whyNoImport(name: string, allow: readonly string[]): string | undefined {
  if (LIBRARIES.includes(name)) return undefined;
  const why = NOT_FOR_PLUGINS[name];
  if (why !== undefined) return `imports ${name}, which ${why}`;
  const written = nodeModule(name);
  if (written === undefined) {
    return `imports ${name}, which is neither in its folder nor one of ${LIBRARIES.join(", ")}`;
  }
  if (allow.includes(written)) return undefined;
  return `imports ${written}, which it may not: write "allow": ["${written}"] beside its "use"`;
}

/** `crypto` and `node:crypto` are the same. */
function nodeModule(name: string): string | undefined {
  if (name.startsWith("node:")) return name;
  // Modules of the runtime, such as `bun:ffi`, are not Node's.
  return isBuiltin(name) && !name.includes(":") && name !== "bun" ? `node:${name}` : undefined;
}

const timersOf = new WeakMap<AnyPlugin, ReturnType<typeof ownTimers>>();

/** Stops the timers of an unused plugin from {@link loadCode}; returns how many were running. */
export function stopTimers(plugin: AnyPlugin): number {
  return timersOf.get(plugin)?.stop() ?? 0;
}

/** The same plugin under another name, with the timers of the original. */
export function renamed(plugin: AnyPlugin, name: string): AnyPlugin {
  const other: AnyPlugin = Object.create(plugin, { name: { value: name } });
  const timers = timersOf.get(plugin);
  if (timers) timersOf.set(other, timers);
  return other;
}

/** Throws what the code throws, or a TypeError for an export that is no plugin. */
export async function loadCode(
  part: Omit<PluginCodePart, "version">,
  allow: readonly string[],
  mark?: HookMark,
): Promise<AnyPlugin> {
  const libraries = await librariesOf(part);
  const timers = ownTimers(mark);
  const require = (name: string) => {
    const why = whyNoImport(name, allow);
    if (why) throw new TypeError(`it ${why}`);
    return libraries.get(name) ?? builtinModule(name);
  };
  try {
    const run = () => runCode(part, require, timers.globals);
    const { default: exported } = await (mark ? mark.call(IN.import, run) : run()) as {
      readonly default?: unknown;
    };
    const fault = whyNoPlugin(exported);
    if (fault) throw new TypeError(`its default export ${fault}`);
    const plugin = exported as AnyPlugin;
    timersOf.set(plugin, timers);
    rememberPlugin(encodeURI(part.path), plugin.name);
    return plugin;
  } catch (error) {
    timers.stop();
    throw error;
  }
}

export async function librariesOf(
  { libraries }: Pick<PluginCodePart, "libraries">,
): Promise<ReadonlyMap<string, unknown>> {
  const loaded = new Map<string, unknown>();
  for (const name of libraries) loaded.set(name, await LOADS[name]?.());
  return loaded;
}

export function builtinModule(name: string): unknown {
  return process.getBuiltinModule(nodeModule(name) ?? name);
}

/** Runs the code and returns its exports. `globals` hide those of the runtime. */
export async function runCode(
  { text, path, map }: Pick<PluginCodePart, "text" | "path" | "map">,
  require: (name: string) => unknown,
  globals: Readonly<Record<string, unknown>> = {},
): Promise<unknown> {
  // Code of several modules lists their names in stack traces.
  const module: { exports: unknown; urls?: readonly string[] } = { exports: {} };
  // The name is for stack traces. A path may contain a line break, so it is encoded.
  const name = encodeURI(path);
  rememberPlaces(name, map);
  const body = `${text}\n//# sourceURL=${name}`;
  const run = new Function("module", "exports", "require", ...Object.keys(globals), body);
  run(module, module.exports, require, ...Object.values(globals));
  for (const [index, url] of (module.urls ?? []).entries()) {
    rememberPlaces(url, map, { index, bundle: name });
  }
  return await module.exports;
}

type Callback = (...given: unknown[]) => unknown;
type Timer = ReturnType<typeof setTimeout>;

/** A plugin with so many timers leaks them. */
const MAX_TIMERS = 1_000;

/** Timers that end with the plugin's generation, even if the plugin does not stop them. */
function ownTimers(mark?: HookMark) {
  const running = new Set<Timer>();
  const kept = (timer: Timer): Timer => {
    running.add(timer);
    return timer;
  };
  const marked = (callback: Callback): Callback =>
    mark ? (...given) => mark.call(IN.timer, () => callback(...given)) : callback;
  const checkRoom = () => {
    if (running.size >= MAX_TIMERS) throw new RangeError(`more than ${MAX_TIMERS} timers`);
  };
  const clear = (timer: Timer | undefined) => {
    if (timer !== undefined) running.delete(timer);
    clearTimeout(timer);
  };
  const globals = {
    setTimeout: (callback: Callback, ms?: number, ...given: unknown[]) => {
      checkRoom();
      const run = marked(callback);
      const timer = setTimeout(() => {
        running.delete(timer);
        run(...given);
      }, ms);
      return kept(timer);
    },
    setInterval: (callback: Callback, ms?: number, ...given: unknown[]) => {
      checkRoom();
      return kept(setInterval(marked(callback), ms, ...given));
    },
    clearTimeout: clear,
    clearInterval: clear,
  };
  /** Stops all timers; returns how many were running. */
  const stop = () => {
    const count = running.size;
    for (const timer of running) clear(timer);
    return count;
  };
  return { globals, stop };
}

const OWN_IMPORT = /^(?:import|export) type [^;]* from "\.\/.*";\n\n?/gm;
const OWN_HEADER = /^\/\*\*.* @module \*\/\n\n/gm;

/** The contract, as authors get it: one file that imports nothing. */
export const CONTRACT_TEXT: string = [pluginText, messageText, hostText]
  .map((text) => text.replaceAll(OWN_IMPORT, "").replace(OWN_HEADER, "")).join("\n");
