/**
 * Values of the configuration file: addresses, durations, names and numbers as schemas whose messages
 * continue a sentence that begins with the path.
 *
 * @module
 */

import * as v from "valibot";
import { type Address, parseDurationMs } from "../base/mod.ts";
import { parseServiceId } from "../identity/mod.ts";

/** A strict object whose messages say what is missing or not known. */
export function object<T extends v.ObjectEntries>(
  entries: T,
): v.StrictObjectSchema<T, (issue: v.StrictObjectIssue) => string> {
  const known = Object.keys(entries).join(", ");
  return v.strictObject(entries, (issue) => {
    if (issue.expected === "never") return `is not known here; known are ${known}`;
    return issue.received === "undefined" && issue.path ? "is missing" : "must be an object";
  });
}

/** Any text but the empty one. */
export function text(): v.GenericSchema<string> {
  return v.pipe(
    v.string("must be a text"),
    v.nonEmpty("must not be empty"),
    v.maxLength(4_096, "is longer than 4096 characters"),
    // deno-lint-ignore no-control-regex -- NUL would cut a path short
    v.check((value) => !/[\x00-\x1f\x7f]/.test(value), "has a control character"),
  );
}

/** A name of the mesh. */
export function name(options: { readonly wildcard?: boolean } = {}): v.GenericSchema<string> {
  return v.pipe(
    text(),
    v.check(
      (value) =>
        (options.wildcard && value === "*") || (value.length <= 255 && !/[\s/*]/.test(value)),
      options.wildcard
        ? 'must be a name without spaces and slashes, or "*"'
        : "must be a name without spaces, slashes and stars",
    ),
  );
}

export function count(least: number, most: number): v.GenericSchema<number> {
  const message = `must be a whole number from ${least} to ${most}`;
  return v.pipe(
    v.number(message),
    v.integer(message),
    v.minValue(least, message),
    v.maxValue(most, message),
  );
}

export function port(least: 0 | 1): v.GenericSchema<number> {
  return count(least, 65_535);
}

/** Go's durations, in milliseconds. */
export function duration(leastMs: number): v.GenericSchema<string, number> {
  return v.pipe(
    v.string('must be a duration such as "500ms", "5s" or "1m30s"'),
    v.rawTransform(({ dataset, addIssue, NEVER }) => {
      const durationMs = parseDurationMs(dataset.value);
      if (durationMs === undefined) {
        addIssue({ message: 'must be a duration such as "500ms", "5s" or "1m30s"' });
        return NEVER;
      }
      if (durationMs < leastMs || durationMs > 2 ** 31 - 1) {
        addIssue({ message: `must be from ${leastMs}ms to 24 days` });
        return NEVER;
      }
      return durationMs;
    }),
  );
}

export function octalMode(): v.GenericSchema<string, number> {
  return v.pipe(
    v.string('must be an octal text such as "0600"'),
    v.regex(/^0?[0-7]{3}$/, 'must be an octal text such as "0600"'),
    v.transform((mode) => Number.parseInt(mode, 8)),
  );
}

export function spiffeId(): v.GenericSchema<string> {
  return v.pipe(
    v.string("must be a SPIFFE id"),
    v.rawCheck(({ dataset, addIssue }) => {
      if (!dataset.typed) return;
      const parsed = parseServiceId(dataset.value);
      if (parsed.kind === "refused") addIssue({ message: `is no SPIFFE id: it ${parsed.reason}` });
    }),
  );
}

type TcpAddress = Extract<Address, { kind: "tcp" }>;

/** `host:port` or, where `unix` says so, `unix:///path`. */
export function address(
  options: { readonly unix: false; readonly emptyHost?: string },
): v.GenericSchema<string, TcpAddress>;
export function address(
  options: { readonly unix: true; readonly emptyHost?: string },
): v.GenericSchema<string, Address>;
export function address(
  options: { readonly unix: boolean; readonly emptyHost?: string },
): v.GenericSchema<string, Address> {
  const wanted = options.unix ? "host:port or unix:///path" : "host:port";
  return v.pipe(
    v.string(`must be ${wanted}`),
    v.rawTransform(({ dataset, addIssue, NEVER }) => {
      const parsed = parseAddress(dataset.value, options);
      if (parsed) return parsed;
      addIssue({ message: `must be ${wanted}, with a port from 1 to 65535` });
      return NEVER;
    }),
  );
}

/** Where an upstream listens: without a host, on this machine only. */
export function bindAddress(): v.GenericSchema<string, Address> {
  return address({ unix: true, emptyHost: "127.0.0.1" });
}

/** The kernel's limit for the path of a socket, without its ending zero. */
const SOCKET_PATH_LIMIT_BYTES = 107;

function parseAddress(
  value: string,
  options: { readonly unix: boolean; readonly emptyHost?: string },
): Address | undefined {
  if (value.startsWith("unix://")) {
    const path = value.slice("unix://".length);
    const fits = new TextEncoder().encode(path).length <= SOCKET_PATH_LIMIT_BYTES;
    // deno-lint-ignore no-control-regex -- NUL would cut the path short
    const valid = options.unix && path.startsWith("/") && fits && !/[\x00-\x1f\x7f]/.test(path);
    return valid ? { kind: "unix", path } : undefined;
  }
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([^\s[\]:/@]*)):(\d{1,5})$/.exec(value);
  const host = match?.[1] ?? (match?.[2] || options.emptyHost);
  const number = Number(match?.[3]);
  if (!host || !(number >= 1 && number <= 65_535)) return undefined;
  return { kind: "tcp", host, port: number };
}
