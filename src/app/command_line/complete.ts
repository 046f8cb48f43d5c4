/**
 * Completes a command line, for the scripts of `shell_scripts.ts`. Commands, flags and values come from the
 * tables that the command line is parsed with; ids and upstreams come from proxies on this machine.
 *
 * @module
 */

import process from "node:process";
import * as v from "valibot";
import { type AskAdmin, askAdmin } from "../../admin/mod.ts";
import { ERROR_CAUSES } from "../../base/error_causes.ts";
import { ERROR_CODES, EVENT_KINDS, printable } from "../../base/mod.ts";
import { parseJson } from "../../wire/mod.ts";
import { HELP_TOPICS, SHELLS } from "./args.ts";
import { PLUGIN_WORDS } from "./args_plugin.ts";
import { FLAGS, helpText } from "./help.ts";
import { TOP_KEYS, TOP_SORTS } from "../commands/live/top_options.ts";
import type { FlagSpec } from "../flags/parse_flags.ts";
import { PROXY_FLAGS } from "../flags/proxy_flags.ts";
import { findSidecars, type FoundSidecar } from "../process/find_admin.ts";

/** `about` follows a candidate where the shell shows explanations. */
interface Candidate {
  readonly value: string;
  readonly about?: string;
}

/** `files`, `directories`: the shell completes the name itself. */
type Completion = readonly Candidate[] | "files" | "directories";

/** A person waits for the answer, at every press of the key. */
const ASK_TIMEOUT_MS = 300;

/** Prints one candidate a line, with a tab before its explanation. */
export async function runComplete(words: readonly string[]): Promise<number> {
  process.stdout.write(completionText(await completionOf(words, askAdmin)));
  return 0;
}

function completionText(completion: Completion): string {
  if (typeof completion === "string") return `:${completion}\n`;
  return completion.map(({ value, about = "" }) => {
    return `${value}${about && `\t${printable(about)}`}\n`;
  }).join("");
}

/** `words` follow the program's name; the last one is completed. */
export async function completionOf(
  words: readonly string[],
  ask: AskAdmin,
): Promise<Completion> {
  const current = words.at(-1) ?? "";
  const found = await candidatesFor(words, (admin, question) => {
    return ask(admin, { ...question, timeoutMs: ASK_TIMEOUT_MS });
  });
  if (typeof found === "string") return found;
  // Two proxies of one id run beside different agents.
  const byValue = new Map(found.map((candidate) => [candidate.value, candidate]));
  return [...byValue.values()].filter(({ value }) => value.startsWith(current));
}

async function candidatesFor(words: readonly string[], ask: AskAdmin): Promise<Completion> {
  if (words.length <= 1) return commands();
  const isConnect = words[0] === "connect" && words.length > 2;
  const command = isConnect ? "proxy" : words[0] ?? "";
  const rest = words.slice(isConnect ? 2 : 1);
  const current = rest.at(-1) ?? "";
  const before = rest.slice(0, -1);
  const [, dashes = "", name = "", value] = /^(--?)([^=]+)=(.*)$/s.exec(current) ?? [];
  const flags = flagsOf(command);
  const given = givenFlags(before, flags);
  if (value !== undefined) {
    const spec = flags.find((flag) => flag.name === name);
    const values = spec ? await valuesOf(spec, { command, given, ask }, value) : [];
    if (typeof values === "string") return values;
    return values.map((each) => ({ ...each, value: `${dashes}${name}=${each.value}` }));
  }
  if (given.open) return await valuesOf(given.open, { command, given, ask }, current);
  if (current.startsWith("-")) return flagCandidates(current, flags, given);
  return await argumentsOf(command, { current, given, ask });
}

function commands(): readonly Candidate[] {
  return Array.from(
    helpText("").matchAll(/^ {2}([a-z-]+)(?: COMMAND)? {2,}(\S.*)$/gm),
    ([, value = "", about = ""]) => ({ value, about }),
  );
}

function flagsOf(command: string): readonly FlagSpec[] {
  const topic = HELP_TOPICS.find((one) => one === command);
  const own = topic === undefined ? [] : FLAGS[topic] ?? [];
  const groups = command === "check" ? [...own, ...PROXY_FLAGS] : own;
  return groups.flatMap(({ flags }) => flags);
}

interface GivenFlags {
  readonly values: ReadonlyMap<string, string>;
  /** Arguments that are not flags. */
  readonly bare: readonly string[];
  /** The last word is this flag, without its value. */
  readonly open?: FlagSpec;
}

function givenFlags(words: readonly string[], flags: readonly FlagSpec[]): GivenFlags {
  const values = new Map<string, string>();
  const bare: string[] = [];
  for (let index = 0; index < words.length; index++) {
    const [, name, inline] = /^--?([^-=][^=]*)(?:=(.*))?$/s.exec(words[index] ?? "") ?? [];
    if (name === undefined) {
      bare.push(words[index] ?? "");
      continue;
    }
    const spec = flags.find((flag) => flag.name === name);
    if (!spec || spec.kind === "switch" || inline !== undefined) values.set(name, inline ?? "");
    else if (index + 1 === words.length) return { values, bare, open: spec };
    else values.set(name, words[++index] ?? "");
  }
  return { values, bare };
}

function flagCandidates(
  current: string,
  flags: readonly FlagSpec[],
  { values }: GivenFlags,
): readonly Candidate[] {
  const dashes = current.startsWith("--") ? "--" : "-";
  const left = flags.filter(({ name, kind }) => kind === "list" || !values.has(name));
  return [
    ...left.map(({ name, help }) => ({ value: `${dashes}${name}`, about: firstSentence(help) })),
    { value: `${dashes}help`, about: "Show the flags and examples" },
  ];
}

function firstSentence(text: string): string {
  return /^.*?[.;](?= )/.exec(text)?.[0].slice(0, -1) ?? text.replace(/\.$/, "");
}

interface Question {
  readonly command: string;
  readonly given: GivenFlags;
  readonly ask: AskAdmin;
}

/** `current`: what is written of the value. */
async function valuesOf(
  flag: FlagSpec,
  question: Question,
  current: string,
): Promise<Completion> {
  if (flag.choices) return flag.choices.map((value) => ({ value }));
  switch (flag.value) {
    case "FILE":
      return "files";
    case "DIR":
      return "directories";
    case "UPSTREAM":
      return await upstreams(question);
  }
  switch (flag.name) {
    case "kind":
      return listed(EVENT_KINDS, current);
    case "by":
      return listed(TOP_KEYS, current);
    case "sort":
      return TOP_SORTS.map((value) => ({ value }));
    case "sidecar-for":
      return await running(question, ({ sidecarFor }) => sidecarFor);
    case "proxy-id":
      return await running(question, ({ proxyId }) => proxyId);
    case "admin":
      return await running(question, ({ at }) => at);
  }
  return [];
}

/** Letters after which error codes are offered, too. */
const CODE_FROM = 3;

function codes(): readonly Candidate[] {
  return ERROR_CODES.map((value) => ({ value, about: ERROR_CAUSES[value].cause }));
}

/** Several may be given with commas: those that are written stay. */
function listed(names: readonly string[], current: string): readonly Candidate[] {
  const before = current.slice(0, current.lastIndexOf(",") + 1);
  const written = before.split(",");
  return names.filter((name) => !written.includes(name)).map((name) => ({ value: before + name }));
}

const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

async function argumentsOf(
  command: string,
  { current, given, ask }: Omit<Question, "command"> & { readonly current: string },
): Promise<Completion> {
  const isFirst = given.bare.length === 0;
  switch (command) {
    case "help":
      return isFirst ? commands().filter(({ value }) => value !== "help") : [];
    case "connect":
      return ["proxy", "envoy"].map((value) => ({ value }));
    case "completion":
      return isFirst ? SHELLS.map((value) => ({ value })) : [];
    case "plugin": {
      const [task] = given.bare;
      if (task === undefined) return Object.keys(PLUGIN_WORDS).map((value) => ({ value }));
      const words = Object.entries(PLUGIN_WORDS).find(([name]) => name === task)?.[1] ?? "";
      return words.startsWith("FILE") ? "files" : [];
    }
    case "check":
      return "files";
    case "explain":
      if (isFirst && /^[A-Z]/.test(current)) return METHODS.map((value) => ({ value }));
      if (given.values.has("inbound")) return [];
      return [
        ...(await upstreams({ command, given, ask })).map(({ value, about }) => {
          return { value: current.startsWith("http") ? `http://${value}/` : value, about };
        }),
        // All of them would hide the upstreams.
        ...isFirst && current.length >= CODE_FROM ? codes() : [],
      ];
  }
  return [];
}

/**
 * Any user of this machine may answer on these ports, and the shell puts the text into a command line as
 * it is. A text that a shell would not take as one plain word is left out.
 */
const PLAIN = /^[A-Za-z0-9][A-Za-z0-9._:/@,+-]{0,300}$/;

async function running(
  { ask }: Question,
  valueOf: (proxy: RunningProxy) => string,
): Promise<readonly Required<Candidate>[]> {
  const proxies = (await runningProxies(ask)).filter((proxy) => PLAIN.test(valueOf(proxy)));
  return proxies.map((proxy) => {
    const name = proxy.proxyId || proxy.config;
    const value = valueOf(proxy);
    return { value, about: name === value ? proxy.at : `${name} at ${proxy.at}` };
  });
}

type RunningProxy = Pick<FoundSidecar, "admin" | "at"> & NonNullable<FoundSidecar["facts"]>;

async function runningProxies(ask: AskAdmin): Promise<readonly RunningProxy[]> {
  return (await findSidecars({ kind: "all" }, ask)).flatMap(({ admin, at, facts }) =>
    facts ? [{ admin, at, ...facts }] : []
  );
}

const Listeners = v.object({
  listeners: v.array(v.object({ name: v.string(), direction: v.string() })),
});

/** Upstreams of the proxy that the flags name, else of all. */
async function upstreams(
  { given: { values }, ask }: Question,
): Promise<readonly Required<Candidate>[]> {
  const meant = (await runningProxies(ask)).filter(({ at, sidecarFor, proxyId }) =>
    (values.get("sidecar-for") ?? sidecarFor) === sidecarFor &&
    (values.get("proxy-id") ?? proxyId) === proxyId &&
    (values.get("admin") ?? at) === at
  );
  const lists = await Promise.all(meant.map(async ({ admin, proxyId, config }) => {
    const names = await outboundListeners(ask, admin);
    return names.map((value) => ({ value, about: `upstream of ${proxyId || config}` }));
  }));
  return lists.flat().filter(({ value }) => PLAIN.test(value));
}

async function outboundListeners(
  ask: AskAdmin,
  admin: RunningProxy["admin"],
): Promise<readonly string[]> {
  try {
    const path = "/listeners?format=postern";
    const { body } = await ask(admin, { path, timeoutMs: ASK_TIMEOUT_MS });
    return v.parse(Listeners, parseJson(body)).listeners
      .filter(({ direction }) => direction === "outbound")
      .map(({ name }) => name.replace(/^service:default\/default\//, ""));
  } catch {
    return []; // The proxy has ended, or another program has the port: nothing to complete.
  }
}
