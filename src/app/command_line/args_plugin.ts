/** The command lines of `postern explain` and `postern plugin`. @module */

import {
  type FlagGroup,
  type FlagValues,
  parseFlags,
  quote,
  refuseControlCharacters,
  usage,
} from "../flags/parse_flags.ts";
import { ProxyError } from "../../base/mod.ts";
import type { PluginTask } from "../commands/plugin/run_plugin.ts";
import { PLUGIN_DEV_FLAGS, PLUGIN_TEST_FLAGS } from "./command_flags.ts";
import type { ExplainOptions } from "../commands/run_explain.ts";
import type { WhichProxy } from "../process/find_admin.ts";

/** The commands of `postern plugin`, with their arguments. */
export const PLUGIN_WORDS: Readonly<Record<PluginTask["kind"], string>> = {
  list: "",
  types: "",
  new: "NAME",
  check: "FILE...",
  test: "FILE...",
  bundle: "FILE...",
  dev: "FILE",
};

const FLAGS_OF: Readonly<Record<string, readonly FlagGroup[]>> = {
  dev: PLUGIN_DEV_FLAGS,
  test: PLUGIN_TEST_FLAGS,
};

/** `undefined`: help is wanted. */
export function parsePluginTask(
  argv: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): PluginTask | undefined {
  const [kind = "", ...rest] = argv;
  const isKnown = Object.hasOwn(PLUGIN_WORDS, kind);
  const end = rest.findIndex((word) => word.startsWith("-"));
  const words = isKnown ? rest.slice(0, end < 0 ? rest.length : end) : [];
  const flags = isKnown ? rest.slice(words.length) : argv.filter((word) => word.startsWith("-"));
  const given = parseFlags(flags, FLAGS_OF[kind] ?? [], {
    command: "postern plugin",
    env,
  });
  if (given.helpWanted) return undefined;
  if (!isKnown) {
    const what = kind === "" ? "plugin" : `plugin ${quote(kind).slice(1, -1)}`;
    const known = Object.keys(PLUGIN_WORDS).join(", ");
    throw usage(`Cannot run "${what}": want one of ${known}; see "postern plugin -help"`);
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
    case "test":
      if (first !== undefined) {
        return { kind, files: words, only: flags.text("only"), watch: flags.on("watch") };
      }
      break;
    case "check":
    case "bundle":
      if (first !== undefined) return { kind, files: words };
  }
  const want = `postern plugin ${kind} ${PLUGIN_WORDS[kind]}`.trimEnd();
  const got = words.length === 0 ? "nothing follows it" : `${quote(words.join(" "))} follows it`;
  throw usage(`Cannot run "plugin ${kind}": ${got}; want "${want}"`);
}

function readJson(flags: FlagValues, name: string): unknown {
  const text = flags.text(name) ?? "{}";
  try {
    return JSON.parse(text);
  } catch {
    throw usage(`Cannot read -${name}: ${quote(text)} is no JSON`);
  }
}

export const EXPLAIN_ARGUMENTS = ["METHOD", "URL"] as const;

/** The scheme is optional and changes nothing: the upstream has its protocol. */
const URL_FORM = /^(?:(?:https?|tcp):\/\/)?(?![a-z]+:\/)([^/?#\s]+)([/?][^#\s]*)?$/i;

/** An id as listed, with a path where one follows: `db?dc=dc2`, `service:default/default/db/orders`. */
const ID_FORM = new RegExp(
  "^((?:service:[^/?#\\s]+/[^/?#\\s]+/[^/?#\\s]+|prepared_query:[^/?#\\s]+|" +
    "ingress:\\d+/[^/?#\\s]+)(?:\\?(?:dc|peer)=[^/?#&\\s]+)?|" +
    "[^:/?#\\s]+\\?(?:dc|peer)=[^/?#&\\s]+)([/?][^#\\s]*)?$",
);

/** Throws `usage`, naming the argument that cannot be read. */
export function readExplain(flags: FlagValues, proxy: WhichProxy): ExplainOptions {
  const given = EXPLAIN_ARGUMENTS.flatMap((name) => flags.text(name) ?? []);
  const isInbound = flags.on("inbound");
  if (!isInbound && flags.given("source")) {
    throw usage(
      "Cannot use -source without -inbound: towards an upstream the caller is this proxy",
    );
  }
  return {
    proxy,
    method: given.length === 2 ? given[0] ?? "" : "GET",
    ...readTarget(given.at(-1) ?? (isInbound ? "/" : undefined), isInbound),
    headers: flags.list("H"),
    source: flags.text("source") ?? "",
    json: flags.on("json"),
    connects: !flags.on("no-connect"),
  };
}

function readTarget(
  url: string | undefined,
  isInbound: boolean,
): Pick<ExplainOptions, "upstream" | "host" | "path"> {
  if (url === undefined) throw unreadable("no URL was given");
  const [, id, ofId] = isInbound ? [] : ID_FORM.exec(url) ?? [];
  if (id !== undefined) return { upstream: id, host: "", path: pathOf(ofId) };
  const [, host = "", rest] = URL_FORM.exec(url) ?? [];
  if (host !== "") return { upstream: isInbound ? undefined : host, host, path: pathOf(rest) };
  if (!/^\/[^#\s]*$/.test(url)) throw unreadable(`the URL ${quote(url)} cannot be read`);
  if (!isInbound) throw unreadable(`the URL ${quote(url)} names no upstream`);
  return { upstream: undefined, host: "", path: url };
}

function pathOf(rest = "/"): string {
  return rest.startsWith("?") ? `/${rest}` : rest;
}

function unreadable(why: string): ProxyError {
  return usage(
    `Cannot explain: ${why}; want http://UPSTREAM/PATH, an upstream's id, or -inbound and /PATH`,
  );
}
