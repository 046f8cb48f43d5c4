/**
 * What follows `postern plugin`.
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";
import { parseFlags, quote, refuseControlCharacters } from "./args_flags.ts";

/** What `postern plugin` does; there is at least one of `files`. */
export type PluginTask =
  | { readonly kind: "list" | "types" }
  | { readonly kind: "new"; readonly name: string }
  | { readonly kind: "check" | "test"; readonly files: readonly string[] };

/** What follows the word. */
const WORDS: Readonly<Record<PluginTask["kind"], string>> = {
  list: "",
  types: "",
  new: "NAME",
  check: "FILE...",
  test: "FILE...",
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
  const flags = isKnown ? rest.slice(words.length) : argv.slice(0, 1);
  if (parseFlags(flags, [], { command: "postern plugin", env }).helpWanted) return undefined;
  if (!isKnown) {
    const hint = 'say what to do; see "postern plugin -help"';
    throw new ProxyError("usage", `Cannot run "plugin": ${hint}`);
  }
  for (const word of words) refuseControlCharacters("the argument", word);
  return taskOf(kind as PluginTask["kind"], words);
}

function taskOf(kind: PluginTask["kind"], words: readonly string[]): PluginTask {
  const [first, ...more] = words;
  switch (kind) {
    case "list":
    case "types":
      if (first === undefined) return { kind };
      break;
    case "new":
      if (first !== undefined && more.length === 0) return { kind, name: first };
      break;
    case "check":
    case "test":
      if (first !== undefined) return { kind, files: words };
  }
  const want = `postern plugin ${kind} ${WORDS[kind]}`.trimEnd();
  const got = words.length === 0 ? "nothing follows it" : `${quote(words.join(" "))} follows it`;
  throw new ProxyError("usage", `Cannot run "plugin ${kind}": ${got}; want "${want}"`);
}
