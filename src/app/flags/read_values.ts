/** Readers of flags' values. They throw `usage` with flag, value and wanted form. @module */

import { type FlagValues, quote, usage } from "./parse_flags.ts";
import {
  type Address,
  hostFault,
  LOG_LEVELS,
  type LogLevel,
  parseDurationMs,
  ProxyError,
} from "../../base/mod.ts";

type Values = Pick<FlagValues, "text" | "origin" | "byDefault">;

export function badValue(flags: Values, name: string, reason: string): ProxyError {
  return usage(`Cannot read ${flags.origin(name)} ${quote(flags.text(name) ?? "")}: ${reason}`);
}

/** The value, or else the default of the flag's table, or else `""`. */
export function textOrDefault(flags: Values, name: string): string {
  return flags.text(name) ?? flags.byDefault(name) ?? "";
}

export function readDurationMs(
  flags: Values,
  name: string,
  options: { readonly atLeastMs?: number; readonly byDefaultMs?: number } = {},
): number {
  const { atLeastMs = 0, byDefaultMs } = options;
  if (byDefaultMs !== undefined && flags.text(name) === undefined) return byDefaultMs;
  const durationMs = parseDurationMs(textOrDefault(flags, name));
  if (durationMs === undefined) {
    throw badValue(flags, name, "want a duration with its unit, such as 500ms, 8s or 1m30s");
  }
  if (durationMs >= atLeastMs) return durationMs;
  throw badValue(flags, name, `it must be at least ${atLeastMs / 1000}s`);
}

export function readInteger(
  flags: Values,
  name: string,
  { atLeast, atMost }: { readonly atLeast: number; readonly atMost: number },
): number {
  const value = parseInteger(textOrDefault(flags, name));
  if (value !== undefined && value >= atLeast && value <= atMost) return value;
  throw badValue(flags, name, `want a whole number from ${atLeast} to ${atMost}`);
}

export function readChoice<T extends string>(
  flags: Values,
  name: string,
  choices: readonly T[],
): T {
  const text = textOrDefault(flags, name).toLowerCase();
  const found = choices.find((choice) => choice === text);
  if (found === undefined) throw badValue(flags, name, `want ${choices.join(" or ")}`);
  return found;
}

/** `-log-level`, in any case; `err` is Consul's name for `error`. */
export function readLogLevel(flags: Values): LogLevel {
  const text = textOrDefault(flags, "log-level").toLowerCase();
  const found = LOG_LEVELS.find((level) => level === (text === "err" ? "error" : text));
  if (found === undefined) throw badValue(flags, "log-level", `want ${LOG_LEVELS.join(", ")}`);
  return found;
}

/** `KEY=VALUE` each; `origin`: the flag, for errors. */
export function readPairs(
  texts: readonly string[],
  origin: string,
): Readonly<Record<string, string>> {
  return Object.fromEntries(texts.map((text) => {
    const at = text.indexOf("=");
    if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
    throw usage(`Cannot read ${origin} ${quote(text)}: want KEY=VALUE`);
  }));
}

/** `host:port`, `[::1]:port`; without host `emptyHost` (`undefined`: there must be one). */
export function readTcpAddress(
  flags: Values,
  name: string,
  options: { readonly emptyHost?: string; readonly atLeastPort: 0 | 1 },
): Extract<Address, { kind: "tcp" }> | undefined {
  const text = flags.text(name);
  if (text === undefined) return undefined;
  const [host, portText] = splitHostPort(text) ?? [];
  if (host === undefined || portText === undefined) {
    throw badValue(flags, name, "want host:port, such as 127.0.0.1:8080 or [::1]:8080");
  }
  const port = parsePort(portText, options.atLeastPort);
  if (port === undefined) {
    throw badValue(flags, name, `the port must be a number from ${options.atLeastPort} to 65535`);
  }
  const fault = hostFault(host);
  if (fault !== undefined) throw badValue(flags, name, `it names ${fault}`);
  if (host === "" && options.emptyHost === undefined) {
    throw badValue(flags, name, "it names no host; write 127.0.0.1 for this machine only");
  }
  return { kind: "tcp", host: host === "" ? options.emptyHost ?? "" : host, port };
}

/** `[host]:port`, also several in one value, separated by commas. Without a host: this machine. */
export function readTcpAddresses(
  flags: Pick<FlagValues, "list">,
  name: string,
): readonly Extract<Address, { kind: "tcp" }>[] {
  return flags.list(name).flatMap((list) => list.split(",")).flatMap((text) => {
    const one = { text: () => text, origin: () => `-${name}`, byDefault: () => undefined };
    return readTcpAddress(one, name, { emptyHost: "127.0.0.1", atLeastPort: 1 }) ?? [];
  });
}

/** Host (without brackets) and port as written; `undefined` where `text` is not of that form. */
export function splitHostPort(text: string): readonly [string, string] | undefined {
  const match = /^(?:\[([0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|([^\s[\]:/@]*)):([^:\s]+)$/.exec(text);
  if (!match || text.length > 300) return undefined;
  return [match[1] ?? match[2] ?? "", match[3] ?? ""];
}

/** A port in any base Go reads (`8080`, `0x1f90`), or `undefined`. */
export function parsePort(text: string, atLeast: 0 | 1): number | undefined {
  const port = parseInteger(text);
  return port === undefined || port < atLeast || port > 65_535 ? undefined : port;
}

/** A whole number as Go reads it with base 0: decimal, 0x, 0o or a leading 0, 0b, `_` between. */
function parseInteger(text: string): number | undefined {
  if (text.length > 40 || !/^[0-9A-Za-z]+(?:_[0-9A-Za-z]+)*$/.test(text)) return undefined;
  let digits = text.replaceAll("_", "");
  if (/^0[0-7]+$/.test(digits)) digits = `0o${digits.slice(1)}`;
  if (!/^(?:0|[1-9]\d*|0[xX][0-9A-Fa-f]+|0[oO][0-7]+|0[bB][01]+)$/.test(digits)) return undefined;
  const value = Number(digits);
  return Number.isSafeInteger(value) ? value : undefined;
}

export interface UpstreamArgument {
  readonly name: string;
  readonly type: "service" | "prepared_query";
  readonly host: string;
  readonly port: number;
}

const LONGEST = 500;

export function parseUpstream(text: string): UpstreamArgument {
  const match = /^([^:[\]]+):(?:(?:([^:[\]]*)|\[([0-9A-Fa-f:.]+)\]):)?([^:[\]]+)$/.exec(text);
  if (!match || text.length > LONGEST) {
    throw bad(text, "want name:port, name:address:port, or name.query:port for a prepared query");
  }
  const [, nameAndType = "", plain, bracketed, portText = ""] = match;
  // The type follows the last dot: a service name of the mesh is a DNS label and has no dot.
  const dot = nameAndType.lastIndexOf(".");
  const name = dot < 0 ? nameAndType : nameAndType.slice(0, dot);
  const type = dot < 0 ? "" : nameAndType.slice(dot + 1);
  if (name === "") throw bad(text, "it names no service");
  if (type !== "" && type !== "service" && type !== "query") {
    throw bad(text, `the type is ${quote(type)}; want service or query`);
  }
  const port = parsePort(portText, 1);
  if (port === undefined) throw bad(text, "the port must be a number from 1 to 65535");
  const host = bracketed ?? (plain || "127.0.0.1");
  const fault = hostFault(host);
  if (fault !== undefined) throw bad(text, `it names ${fault}`);
  return { name, type: type === "query" ? "prepared_query" : "service", host, port };
}

/** Upstreams sorted by name; the last one of a name counts, as in Consul. */
export function parseUpstreams(texts: readonly string[]): readonly UpstreamArgument[] {
  const byName = new Map(texts.map(parseUpstream).map((upstream) => [upstream.name, upstream]));
  return [...byName.values()].sort((a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
}

function bad(text: string, reason: string): ProxyError {
  return usage(`Cannot read -upstream ${quote(text)}: ${reason}`);
}
