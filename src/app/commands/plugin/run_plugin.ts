/** `postern plugin`: tools for the author of a plugin. @module */

import process from "node:process";
import { builtInSummaries } from "../../../built_in/mod.ts";
import { CONTRACT_TEXT } from "../../../plugin/mod.ts";

/** A task of `postern plugin`; `files` has at least one entry. */
export type PluginTask =
  | { readonly kind: "list" | "types" }
  | { readonly kind: "new"; readonly name: string }
  | { readonly kind: "dev"; readonly file: string; readonly config: unknown }
  | { readonly kind: "check" | "bundle"; readonly files: readonly string[] }
  | {
    readonly kind: "test";
    readonly files: readonly string[];
    readonly only: string | undefined;
    readonly watch: boolean;
  };

/** Returns the exit code. */
export async function runPlugin(task: PluginTask): Promise<number> {
  const write = (text: string) => void process.stdout.write(text);
  switch (task.kind) {
    case "list":
      write(await listText());
      return 0;
    case "types":
      write(CONTRACT_TEXT);
      return 0;
    // Loaded when they run: the compiler and the kit are large.
    case "new":
      return await (await import("./new_plugin.ts")).newPlugin(task.name, write);
    case "dev":
      return await (await import("./dev_plugin.ts")).runDevPlugin(task.file, task.config, write);
    case "check":
      return await (await import("./check_plugin.ts")).checkPlugins(task.files, write);
    case "bundle":
      return await (await import("./bundle_plugin.ts")).bundlePlugins(task.files, write);
    case "test":
      return await (await import("./test_plugin.ts")).testPlugins(task.files, write, task);
  }
}

/** A line for each plugin inside the executable: name, phase and what it does. */
export async function listText(): Promise<string> {
  const all = await builtInSummaries();
  const width = Math.max(...all.map(({ name }) => name.length));
  return all.map(({ name, phase, about }) =>
    `${name.padEnd(width)}  ${phase.padEnd("attempt".length)}  ${about}`.trimEnd() + "\n"
  ).join("");
}
