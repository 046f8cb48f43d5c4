/**
 * What `postern plugin` tells the author of a plugin.
 *
 * @module
 */

import process from "node:process";
import type { PluginTask } from "../../command_line/args.ts";
import { builtInSummaries } from "../../../built_in/mod.ts";
import { CONTRACT_TEXT } from "../../../plugin/mod.ts";

/** The exit code. */
export async function runPlugin(task: PluginTask): Promise<number> {
  const write = (text: string) => void process.stdout.write(text);
  switch (task.kind) {
    case "list":
      write(await listText());
      return 0;
    case "types":
      write(CONTRACT_TEXT);
      return 0;
    // Each is loaded when it is run: the compiler and the kit are much to read.
    case "new":
      return await (await import("./new_plugin.ts")).newPlugin(task.name, write);
    case "dev":
      return await (await import("./dev_plugin.ts")).runDevPlugin(task.file, task.config, write);
    case "check":
      return await (await import("./check_plugin.ts")).checkPlugins(task.files, write);
    case "test":
      return await (await import("./test_plugin.ts")).testPlugins(task.files, write);
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
