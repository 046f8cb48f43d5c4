/**
 * Values of configuration as schemas whose messages continue a sentence that begins with the path:
 * texts, numbers, durations, addresses and strict objects.
 *
 * @module
 */

import * as v from "valibot";
import { type Address, hostFault, issueWords, nearest, parseDurationMs } from "../base/mod.ts";

/** A strict object whose messages say what is missing or not known. */
export function object<T extends v.ObjectEntries>(
  entries: T,
): v.StrictObjectSchema<T, (issue: v.StrictObjectIssue) => string> {
  return v.strictObject(entries, (issue) => {
    if (issue.expected === "never") {
      return notKnown(`${issue.path?.at(-1)?.key}`, Object.keys(entries));
    }
    return issue.received === "undefined" && issue.path ? "is missing" : "must be an object";
  });
}

/** What to say of a key that none of `known` is. */
export function notKnown(key: string, known: readonly string[]): string {
  const near = nearest(key, known);
  const hint = near === undefined ? `known are ${known.join(", ")}` : `did you mean "${near}"?`;
  return `is not known here; ${hint}`;
}

type Defined<T> =
  & { [K in keyof T as undefined extends T[K] ? never : K]: T[K] }
  & { [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined> };

/** Without the members that are `undefined`. */
export function defined<T extends object>(values: T): Defined<T> {
  const entries = Object.entries(values).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as Defined<T>;
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

export type TcpAddress = Extract<Address, { kind: "tcp" }>;

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
  return v.pipe(
    v.string(`must be ${options.unix ? "host:port or unix:///path" : "host:port"}`),
    v.rawTransform(({ dataset, addIssue, NEVER }) => {
      const parsed = parseAddress(dataset.value, options);
      if (typeof parsed !== "string") return parsed;
      addIssue({ message: parsed });
      return NEVER;
    }),
  );
}

/** The kernel's limit for the path of a socket, without its ending zero. */
const SOCKET_PATH_LIMIT_BYTES = 107;

/** What is wrong with it as a text. */
export function parseAddress(
  value: string,
  options: { readonly unix: boolean; readonly emptyHost?: string },
): Address | string {
  const wanted = options.unix ? "host:port or unix:///path" : "host:port";
  if (value.startsWith("unix://")) {
    const path = value.slice("unix://".length);
    if (!options.unix) return `must be ${wanted}, not a socket`;
    return isSocketPath(path)
      ? { kind: "unix", path }
      : "must be unix:// and an absolute path of at most 107 bytes";
  }
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([^\s[\]:/@]*)):(\d{1,5})$/.exec(value);
  const host = match?.[1] ?? (match?.[2] || options.emptyHost);
  const number = Number(match?.[3]);
  if (!host || !(number >= 1 && number <= 65_535)) {
    return `must be ${wanted}, with a port from 1 to 65535`;
  }
  const fault = hostFault(host);
  return fault === undefined ? { kind: "tcp", host, port: number } : `names ${fault}`;
}

/** A host alone. */
export function host(): v.GenericSchema<string> {
  return v.pipe(
    text(),
    v.regex(/^[^\s[\]/@]*$/, "must be a host, without brackets and port"),
    v.check(
      (value) => hostFault(value) === undefined,
      (issue) => `names ${hostFault(issue.input)}`,
    ),
  );
}

/** An absolute path that the kernel takes as a socket's. */
export function isSocketPath(path: string): boolean {
  const fits = new TextEncoder().encode(path).length <= SOCKET_PATH_LIMIT_BYTES;
  // deno-lint-ignore no-control-regex -- NUL would cut the path short
  return path.startsWith("/") && fits && !/[\x00-\x1f\x7f]/.test(path);
}

/** One problem and where it is. `message` continues a sentence that begins with the path. */
export interface Problem {
  readonly path: ConfigPath;
  readonly message: string;
}

export type ConfigPath = readonly (string | number)[];

/** Where a schema found something wrong, as keys. */
export function problemOf(issue: v.BaseIssue<unknown>): Problem {
  const path = (issue.path ?? []).map(({ key }) => typeof key === "number" ? key : String(key));
  return { path, message: issueWords(issue) };
}

/** `upstreams[0].bind`; "" for the whole. */
export function formatPath(path: ConfigPath): string {
  let shown = "";
  for (const part of path) {
    if (typeof part === "number") shown += `[${part}]`;
    else if (/^[A-Za-z_][\w-]*$/.test(part)) shown += shown ? `.${part}` : part;
    else shown += `[${JSON.stringify(part)}]`;
  }
  return shown;
}
