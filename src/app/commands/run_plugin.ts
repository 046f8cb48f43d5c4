/**
 * What `postern plugin` tells the author of a plugin.
 *
 * @module
 */

import process from "node:process";
import type { PluginTask } from "../command_line/args.ts";
import { aboutBuiltIn, contractText } from "../../plugin/mod.ts";

/** The exit code. */
export async function runPlugin(task: PluginTask): Promise<number> {
  switch (task) {
    case "list":
      process.stdout.write(await listText());
      return 0;
    case "types":
      process.stdout.write(await contractText());
      return 0;
  }
}

/** A line for each plugin inside the executable: name, phase and what it does. */
export async function listText(): Promise<string> {
  const all = await aboutBuiltIn();
  const width = Math.max(...all.map(({ name }) => name.length));
  return all.map(({ name, phase, about }) =>
    `${name.padEnd(width)}  ${phase.padEnd("attempt".length)}  ${about}`.trimEnd() + "\n"
  ).join("");
}
