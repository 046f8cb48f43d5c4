/** Parses the command line. Finds every contradiction before anything is started. @module */

import {
  type FlagGroup,
  type FlagValues,
  parseFlags,
  quote,
  refuseControlCharacters,
  usage,
} from "../flags/parse_flags.ts";
import { ERROR_CODES, type ErrorCode, nearest, ProxyError } from "../../base/mod.ts";
import { envoyWarnings, insteadOfEnvoyFlag, TAKEN_ENVOY_FLAGS } from "./args_envoy.ts";
import { type DataplaneWords, parseDataplane } from "../consul_dataplane/values.ts";
import type { PluginTask } from "../commands/plugin/run_plugin.ts";
import type { DevOptions } from "../commands/run_dev.ts";
import type { EventsOptions } from "../commands/run_events.ts";
import type { ExplainOptions } from "../commands/run_explain.ts";
import type { DoctorOptions } from "../commands/doctor/run_doctor.ts";
import type { TapOptions } from "../commands/live/run_tap.ts";
import type { TopOptions } from "../commands/live/top_options.ts";
import type { StatusOptions } from "../commands/live/run_status.ts";
import type { UpgradeOptions } from "../commands/run_upgrade.ts";
import { readDoctor, readSidecars, readStatus, readTap, readTop } from "./args_live.ts";
import { EXPLAIN_ARGUMENTS, parsePluginTask, readExplain } from "./args_plugin.ts";
import { type ProxyOptions, readProxyOptions } from "../flags/proxy_options.ts";
import { PROXY_FLAGS } from "../flags/proxy_flags.ts";
import {
  CHECK_FLAGS,
  DEV_FLAGS,
  DOCTOR_FLAGS,
  EVENTS_FLAGS,
  EXPLAIN_FLAGS,
  STATUS_FLAGS,
  TAP_FLAGS,
  TOP_FLAGS,
  UPGRADE_FLAGS,
  VERSION_FLAGS,
  WAIT_READY_FLAGS,
} from "./command_flags.ts";
import {
  readChoice,
  readDurationMs,
  readLogLevel,
  readTcpAddress,
  textOrDefault,
} from "../flags/read_values.ts";
import { agentAddressText } from "../../consul/mod.ts";
import type { WhichProxy } from "../process/find_admin.ts";

type Env = Readonly<Record<string, string | undefined>>;

export const HELP_TOPICS = [
  "",
  "proxy",
  "dataplane",
  "check",
  "doctor",
  "dev",
  "wait-ready",
  "explain",
  "events",
  "status",
  "upgrade",
  "top",
  "tap",
  "plugin",
  "completion",
  "schema",
  "version",
] as const;
/** `""`: the list of commands. */
export type HelpTopic = (typeof HELP_TOPICS)[number];

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

/** The command that completion scripts run; help leaves it out. */
export const COMPLETE_COMMAND = "complete-words";

export type Command =
  | { readonly kind: "proxy"; readonly options: ProxyOptions }
  | { readonly kind: "check"; readonly options: ProxyOptions; readonly strict: boolean }
  | { readonly kind: "dataplane"; readonly words: DataplaneWords }
  | { readonly kind: "dev"; readonly options: DevOptions }
  | {
    readonly kind: "wait_ready";
    readonly waitFor: WhichProxy;
    readonly timeoutMs: number;
    readonly catalog: boolean;
    readonly upstreams: boolean;
  }
  | { readonly kind: "explain"; readonly options: ExplainOptions }
  | { readonly kind: "explain_code"; readonly code: ErrorCode }
  | { readonly kind: "events"; readonly options: EventsOptions }
  | { readonly kind: "doctor"; readonly options: DoctorOptions }
  | { readonly kind: "status"; readonly options: StatusOptions }
  | { readonly kind: "upgrade"; readonly options: UpgradeOptions }
  | { readonly kind: "top"; readonly options: TopOptions }
  | { readonly kind: "tap"; readonly options: TapOptions }
  | { readonly kind: "plugin"; readonly task: PluginTask }
  | { readonly kind: "completion"; readonly shell: Shell }
  /** The words after the program's name; the last one is to be completed. */
  | { readonly kind: "complete"; readonly words: readonly string[] }
  | { readonly kind: "version" | "schema" }
  /** `from`: `SHA256SUMS` of a release, a file or a URL. */
  | { readonly kind: "check_release"; readonly from: string }
  | { readonly kind: "help"; readonly topic: HelpTopic };

/** Commands that have help of their own, and two that do not. */
const COMMANDS = [...HELP_TOPICS.filter((topic) => topic !== ""), "help", "connect"];

export function parseCommand(argv: readonly string[], env: Env): Command {
  const [word = "", ...rest] = argv;
  switch (word) {
    case "proxy":
      return parseProxy(rest, env);
    case "dataplane":
      return parseDataplaneCommand(rest, env);
    case "check":
      return parseCheck(rest, env);
    case "doctor":
      return parseDoctor(rest, env);
    case "connect":
      return parseConnect(rest, env);
    case "dev":
      return parseDev(rest, env);
    case "wait-ready":
      return parseWaitReady(rest, env);
    case "explain":
      return parseExplain(rest, env);
    case "events":
      return parseEvents(rest, env);
    case "status":
      return parseStatus(rest, env);
    case "upgrade":
      return parseUpgrade(rest, env);
    case "top":
      return parseTop(rest, env);
    case "tap":
      return parseTap(rest, env);
    case "plugin":
      return parsePlugin(rest, env);
    case "completion":
      return parseCompletion(rest, env);
    case "schema":
      return flagsOf("schema", rest, env, []).helpWanted
        ? { kind: "help", topic: "schema" }
        : { kind: "schema" };
    case COMPLETE_COMMAND:
      return { kind: "complete", words: rest };
    case "version":
      return parseVersion(rest, env);
    case "-version":
    case "--version":
    case "-v":
      return { kind: "version" };
    case "help":
      return parseHelp(rest);
    case "-h":
    case "-help":
    case "--help":
      return { kind: "help", topic: "" };
    case "":
      throw usage('Cannot start: no command was given; see "postern help"');
    default:
      throw unknownCommand(word);
  }
}

/** `consul connect proxy ...` and `consul connect envoy ...` with only the program's name changed. */
function parseConnect(argv: readonly string[], env: Env): Command {
  const [word = "", ...rest] = argv;
  if (word === "proxy") return parseProxy(rest, env);
  if (word === "envoy") return parseEnvoy(rest, env);
  throw usage(
    `Cannot run "connect ${quote(word).slice(1, -1)}": want "postern connect proxy" (the same as ` +
      '"postern proxy") or "postern connect envoy"',
  );
}

/** The words after `--` are Envoy's own command line. */
function parseEnvoy(argv: readonly string[], env: Env): Command {
  const end = argv.indexOf("--");
  const [own, envoyWords] = end < 0 ? [argv, []] : [argv.slice(0, end), argv.slice(end + 1)];
  for (const word of envoyWords) refuseControlCharacters("what follows --", word);
  const flags = flagsOf("connect envoy", own, env, [...PROXY_FLAGS, ...TAKEN_ENVOY_FLAGS]);
  if (flags.helpWanted) return { kind: "help", topic: "proxy" };
  const options = readProxyOptions(flags);
  const warnings = [...options.warnings, ...envoyWarnings(flags, envoyWords)];
  return { kind: "proxy", options: { ...options, warnings } };
}

function parseProxy(argv: readonly string[], env: Env): Command {
  const flags = flagsOf("proxy", argv, env, PROXY_FLAGS);
  if (flags.helpWanted) return { kind: "help", topic: "proxy" };
  return { kind: "proxy", options: readProxyOptions(flags) };
}

function parseCheck(argv: readonly string[], env: Env): Command {
  const parse = (words: readonly string[]) =>
    flagsOf("check", words, env, [...CHECK_FLAGS, ...PROXY_FLAGS]);
  const flags = parse(argv);
  if (flags.helpWanted) return { kind: "help", topic: "check" };
  if (flags.on("online") && flags.on("strict")) {
    throw usage("Cannot use -strict with -online, which exits with 0 if there are only warnings");
  }
  if (flags.on("online")) return { kind: "doctor", options: readDoctor(argv, parse) };
  for (const name of ["json", "no-color"]) {
    if (flags.given(name)) {
      throw usage(
        `Cannot use -${name} without -online: check prints lines for people; with -online it asks ` +
          "Consul as postern doctor does, and has JSON and colours",
      );
    }
  }
  return { kind: "check", options: readProxyOptions(flags), strict: flags.on("strict") };
}

function parseDoctor(argv: readonly string[], env: Env): Command {
  const parse = (words: readonly string[]) =>
    flagsOf("doctor", words, env, [...DOCTOR_FLAGS, ...PROXY_FLAGS]);
  if (parse(argv).helpWanted) return { kind: "help", topic: "doctor" };
  return { kind: "doctor", options: readDoctor(argv, parse) };
}

function parseDataplaneCommand(argv: readonly string[], env: Env): Command {
  const words = parseDataplane(argv, env);
  if (words.flags.helpWanted) return { kind: "help", topic: "dataplane" };
  return words.flags.on("version") ? { kind: "version" } : { kind: "dataplane", words };
}

function parseDev(argv: readonly string[], env: Env): Command {
  const flags = flagsOf("dev", argv, env, DEV_FLAGS);
  if (flags.helpWanted) return { kind: "help", topic: "dev" };
  const token = flags.text("token");
  return {
    kind: "dev",
    options: {
      listen: readTcpAddress(flags, "http-addr", { atLeastPort: 0 }) ??
        { kind: "tcp", host: "127.0.0.1", port: 8500 },
      elsewhere: !flags.given("http-addr"),
      datacenter: textOrDefault(flags, "datacenter"),
      defaultPolicy: readChoice(flags, "default-policy", ["allow", "deny"]),
      ...(token !== undefined && { token }),
      demo: flags.on("demo"),
      logLevel: readLogLevel(flags),
      logJson: flags.on("log-json"),
    },
  };
}

function parseWaitReady(argv: readonly string[], env: Env): Command {
  const flags = flagsOf("wait-ready", argv, env, WAIT_READY_FLAGS);
  if (flags.helpWanted) return { kind: "help", topic: "wait-ready" };
  // It may not have been started yet.
  const first = { kind: "tcp", host: "127.0.0.1", port: 19_000 } as const;
  const waitFor = readWhichProxy(flags, env, { kind: "address", admin: first });
  const catalog = flags.on("catalog");
  if (catalog && waitFor.kind === "proxy" && waitFor.wanted.flag === "config") {
    throw usage(
      "Cannot use -config with -catalog: a proxy with -config is in no catalog of Consul; leave out " +
        "-catalog",
    );
  }
  return {
    kind: "wait_ready",
    waitFor,
    catalog,
    upstreams: flags.on("upstreams"),
    timeoutMs: readDurationMs(flags, "timeout"),
  };
}

function parseExplain(argv: readonly string[], env: Env): Command {
  const flags = parseFlags(argv, EXPLAIN_FLAGS, {
    command: "postern explain",
    env,
    bare: EXPLAIN_ARGUMENTS,
  });
  if (flags.helpWanted) return { kind: "help", topic: "explain" };
  const code = ERROR_CODES.find((one) => argv.length === 1 && argv[0] === one);
  if (code) return { kind: "explain_code", code };
  return { kind: "explain", options: readExplain(flags, readWhichProxy(flags, env)) };
}

function parseEvents(argv: readonly string[], env: Env): Command {
  const flags = flagsOf("events", argv, env, EVENTS_FLAGS);
  if (flags.helpWanted) return { kind: "help", topic: "events" };
  return {
    kind: "events",
    options: {
      which: readSidecars(flags),
      follow: flags.on("follow"),
      since: flags.text("since") ?? "",
      kinds: flags.text("kind") ?? "",
      json: flags.on("json"),
      noColor: flags.on("no-color"),
    },
  };
}

function parseStatus(argv: readonly string[], env: Env): Command {
  const flags = flagsOf("status", argv, env, STATUS_FLAGS);
  if (flags.helpWanted) return { kind: "help", topic: "status" };
  return { kind: "status", options: readStatus(flags) };
}

function parseUpgrade(argv: readonly string[], env: Env): Command {
  const flags = flagsOf("upgrade", argv, env, UPGRADE_FLAGS);
  if (flags.helpWanted) return { kind: "help", topic: "upgrade" };
  const timeoutMs = readDurationMs(flags, "timeout");
  return { kind: "upgrade", options: { proxy: readWhichProxy(flags, env), timeoutMs } };
}

function parseTop(argv: readonly string[], env: Env): Command {
  const flags = flagsOf("top", argv, env, TOP_FLAGS);
  if (flags.helpWanted) return { kind: "help", topic: "top" };
  return { kind: "top", options: readTop(flags) };
}

function parseTap(argv: readonly string[], env: Env): Command {
  const flags = flagsOf("tap", argv, env, TAP_FLAGS);
  if (flags.helpWanted) return { kind: "help", topic: "tap" };
  return { kind: "tap", options: readTap(flags) };
}

function parsePlugin(argv: readonly string[], env: Env): Command {
  const task = parsePluginTask(argv, env);
  return task ? { kind: "plugin", task } : { kind: "help", topic: "plugin" };
}

function parseVersion(argv: readonly string[], env: Env): Command {
  const flags = flagsOf("version", argv, env, VERSION_FLAGS);
  if (flags.helpWanted) return { kind: "help", topic: "version" };
  const from = flags.text("check");
  return from === undefined ? { kind: "version" } : { kind: "check_release", from };
}

function parseCompletion(argv: readonly string[], env: Env): Command {
  const flags = parseFlags(argv, [], { command: "postern completion", env, bare: ["SHELL"] });
  if (flags.helpWanted) return { kind: "help", topic: "completion" };
  const wanted = flags.text("SHELL");
  const shell = SHELLS.find((one) => one === wanted);
  if (shell) return { kind: "completion", shell };
  const got = wanted === undefined ? "no shell was given" : `${quote(wanted)} is not supported`;
  throw usage(`Cannot print a completion script: ${got}; want ${SHELLS.join(", ")}`);
}

/** The proxy at `-admin`, or else the one that was started with the same flag, or else `otherwise`. */
function readWhichProxy(
  flags: FlagValues,
  env: Env,
  otherwise: WhichProxy = { kind: "only" },
): WhichProxy {
  const admin = readTcpAddress(flags, "admin", { emptyHost: "127.0.0.1", atLeastPort: 1 });
  const names = ["config", "proxy-id", "sidecar-for"] as const;
  const [name, other] = [...names.filter((name) => flags.given(name)), ...admin ? ["admin"] : []];
  if (other !== undefined) throw usage(`Cannot use -${name} with -${other}: give one of them`);
  if (admin) return { kind: "address", admin };
  const flag = names.find((name) => flags.given(name)) ??
    names.find((name) => flags.text(name) !== undefined);
  const value = flag && flags.text(flag);
  if (flags.given("http-addr") && (flag === undefined || flag === "config")) {
    throw usage(
      "Cannot use -http-addr here: it tells proxies of one id apart; give -sidecar-for or -proxy-id, too",
    );
  }
  if (flag !== undefined && value !== undefined) {
    const agent = flag === "config" ? undefined : flags.text("http-addr");
    return {
      kind: "proxy",
      wanted: {
        flag,
        value,
        ...agent && {
          agent: { address: agentAddressText(agent, env), said: flags.origin("http-addr") },
        },
      },
    };
  }
  return otherwise;
}

function parseHelp(argv: readonly string[]): Command {
  const [word = "", ...more] = argv[0] === "connect" ? argv.slice(1) : argv;
  const wanted = word === "envoy" ? "proxy" : word === "help" ? "" : word;
  const topic = HELP_TOPICS.find((one) => one === wanted);
  if (topic === undefined) throw unknownCommand(word);
  if (more.length > 0) {
    throw usage(`Cannot show help for ${quote(more.join(" "))}: name one command`);
  }
  return { kind: "help", topic };
}

function flagsOf(
  command: string,
  argv: readonly string[],
  env: Env,
  groups: readonly FlagGroup[],
): FlagValues {
  const replaced = groups.some((group) => PROXY_FLAGS.includes(group))
    ? insteadOfEnvoyFlag
    : undefined;
  return parseFlags(argv, groups, {
    command: `postern ${command}`,
    env,
    ...(command === "check" && { bare: ["config"] }),
    ...(replaced && { replaced }),
  });
}

function unknownCommand(word: string): ProxyError {
  const near = PROXY_FLAGS.some(({ flags }) => flags.some(({ name }) => word === `-${name}`))
    ? `proxy ${word}`
    : nearest(word, COMMANDS);
  const hint = near === undefined ? "" : ` did you mean "postern ${near}"?`;
  return usage(`Cannot run ${quote(word)}: there is no such command;${hint} see "postern help"`);
}
