/**
 * The command line of `postern plugin`.
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";
import type { PluginTask } from "../commands/plugin/run_plugin.ts";
import { PLUGIN_DEV_FLAGS } from "./command_flags.ts";
import {
  type FlagValues,
  parseFlags,
  quote,
  refuseControlCharacters,
} from "../flags/parse_flags.ts";

/** Arguments of each task. */
const WORDS: Readonly<Record<PluginTask["kind"], string>> = {
  list: "",
  types: "",
  new: "NAME",
  check: "FILE...",
  test: "FILE...",
  dev: "FILE",
};

/** `undefined`: help is wanted. */
export function parsePluginTask(
  argv: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): PluginTask | undefined {
  const [kind = "", ...rest] = argv;
  const isKnown = Object.hasOwn(WORDS, kind);
  const end = rest.findIndex((word) => word.startsWith("-"));
  const words = isKnown ? rest.slice(0, end < 0 ? rest.length : end) : [];
  const flags = isKnown ? rest.slice(words.length) : argv.filter((word) => word.startsWith("-"));
  const given = parseFlags(flags, kind === "dev" ? PLUGIN_DEV_FLAGS : [], {
    command: "postern plugin",
    env,
  });
  if (given.helpWanted) return undefined;
  if (!isKnown) {
    const what = kind === "" ? "plugin" : `plugin ${quote(kind).slice(1, -1)}`;
    const known = Object.keys(WORDS).join(", ");
    const hint = `want one of ${known}; see "postern plugin -help"`;
    throw new ProxyError("usage", `Cannot run "${what}": ${hint}`);
  }
  for (const word of words) refuseControlCharacters("the argument", word);
  return taskOf(kind as PluginTask["kind"], words, given);
}

function taskOf(kind: PluginTask["kind"], words: readonly string[], flags: FlagValues): PluginTask {
  const [first, ...more] = words;
  switch (kind) {
    case "list":
    case "types":
      if (first === undefined) return { kind };
      break;
    case "new":
      if (first !== undefined && more.length === 0) return { kind, name: first };
      break;
    case "dev":
      if (first !== undefined && more.length === 0) {
        return { kind, file: first, config: readJson(flags, "config") };
      }
      break;
    case "check":
    case "test":
      if (first !== undefined) return { kind, files: words };
  }
  const want = `postern plugin ${kind} ${WORDS[kind]}`.trimEnd();
  const got = words.length === 0 ? "nothing follows it" : `${quote(words.join(" "))} follows it`;
  throw new ProxyError("usage", `Cannot run "plugin ${kind}": ${got}; want "${want}"`);
}

function readJson(flags: FlagValues, name: string): unknown {
  const text = flags.text(name) ?? "{}";
  try {
    return JSON.parse(text);
  } catch {
    throw new ProxyError("usage", `Cannot read -${name}: ${quote(text)} is no JSON`);
  }
}
