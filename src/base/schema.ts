/** Valibot schemas for configuration. Not in `mod.ts`: data workers do without Valibot. @module */

import * as v from "valibot";
import { type Address, hostFault } from "./host.ts";
import { parseDurationMs } from "./duration.ts";
import { issueWords } from "./issue_words.ts";
import { nearest } from "./nearest.ts";

/** A schema that takes any value and gives a `T`. */
export type SchemaOf<T> = v.GenericSchema<unknown, T>;

/** The output type of an object schema with these fields. */
export type OutputOf<T extends v.ObjectEntries> = v.InferOutput<v.ObjectSchema<T, undefined>>;

export type ConfigPath = readonly (string | number)[];

/** One problem and its place. `message` continues a sentence that begins with the path. */
export interface Problem {
  readonly path: ConfigPath;
  readonly message: string;
}

export function problemOf(issue: v.BaseIssue<unknown>): Problem {
  const path = (issue.path ?? []).map(({ key }) => typeof key === "number" ? key : String(key));
  return { path, message: issueWords(issue) };
}

/** `upstreams[0].bind`; "" for the whole value. */
export function formatPath(path: ConfigPath): string {
  let shown = "";
  for (const part of path) {
    if (typeof part === "number") shown += `[${part}]`;
    else if (/^[A-Za-z_][\w-]*$/.test(part)) shown += shown ? `.${part}` : part;
    else shown += `[${JSON.stringify(part)}]`;
  }
  return shown;
}

/** A strict object whose messages name a missing or unknown key. */
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

/** The message about a key that is none of `known`. */
export function notKnown(key: string, known: readonly string[]): string {
  const near = nearest(key, known);
  const hint = near === undefined ? `known are ${known.join(", ")}` : `did you mean "${near}"?`;
  return `is not known here; ${hint}`;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) &&
    !ArrayBuffer.isView(value);
}

type Defined<T> =
  & { [K in keyof T as undefined extends T[K] ? never : K]: T[K] }
  & { [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined> };

/** The members that are not `undefined`. */
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

export function flag(): v.GenericSchema<boolean> {
  return v.boolean("must be true or false");
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

/** A Go duration, in milliseconds. */
export function duration(leastMs: number): v.GenericSchema<string, number> {
  const wanted = 'must be a duration such as "500ms", "5s" or "1m30s"';
  return v.pipe(
    v.string(wanted),
    v.rawTransform(({ dataset, addIssue, NEVER }) => {
      const durationMs = parseDurationMs(dataset.value);
      const isRead = durationMs !== undefined;
      if (isRead && durationMs >= leastMs && durationMs <= 2 ** 31 - 1) return durationMs;
      addIssue({ message: isRead ? `must be from ${leastMs}ms to 24 days` : wanted });
      return NEVER;
    }),
  );
}

/** A list; an absent one is empty. */
export function list<T>(item: SchemaOf<T>, most: number): v.GenericSchema<T[] | undefined, T[]> {
  return v.optional(
    v.pipe(
      v.array(v.unknown(), "must be a list"),
      // The length is checked before any entry: a wrong entry costs a hundred times its bytes.
      v.maxLength(most, most === 1 ? "has more than one entry" : `has more than ${most} entries`),
      v.array(item),
    ) as unknown as v.GenericSchema<T[]>,
    [],
  );
}

interface AddressOptions {
  /** Whether `unix:///path` is allowed. */
  readonly unix: boolean;
  readonly emptyHost?: string;
}

/** `host:port` or, with `unix`, `unix:///path`. */
export function address(
  options: AddressOptions & { readonly unix: false },
): v.GenericSchema<string, Extract<Address, { kind: "tcp" }>>;
export function address(options: AddressOptions): v.GenericSchema<string, Address>;
export function address(options: AddressOptions): v.GenericSchema<string, Address> {
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

/** The address, or the message about what is wrong with it. */
export function parseAddress(value: string, options: AddressOptions): Address | string {
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

/** A host without a port. */
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

/** The kernel's limit for the path of a socket, without its ending zero. */
const SOCKET_PATH_LIMIT_BYTES = 107;

/** Whether the kernel takes a path as that of a socket. */
export function isSocketPath(path: string): boolean {
  const fits = new TextEncoder().encode(path).length <= SOCKET_PATH_LIMIT_BYTES;
  // deno-lint-ignore no-control-regex -- NUL would cut the path short
  return path.startsWith("/") && fits && !/[\x00-\x1f\x7f]/.test(path);
}

/** Reports a problem at a path below the value. */
export type Report = (path: ConfigPath, message: string) => undefined;

/** `schema`, then a check of what no single field shows. A value that was reported on is dropped. */
export function checked<T, U>(
  schema: SchemaOf<T>,
  check: (value: T, report: Report) => U | undefined,
): SchemaOf<U> {
  return v.pipe(
    schema,
    v.rawTransform<T, U>(({ dataset, addIssue }) => {
      return check(dataset.value, (path, message) => {
        const [first, ...rest] = path.map(itemOf);
        addIssue(first ? { message, path: [first, ...rest] } : { message });
        return undefined;
      }) as U;
    }),
  );
}

function itemOf(key: string | number): v.IssuePathItem {
  return { type: "unknown", origin: "value", input: undefined, key, value: undefined };
}

/** A schema made of a function, which may report any number of problems. */
export function reader<T>(read: (value: unknown, report: Report) => T | undefined): SchemaOf<T> {
  return checked(v.unknown(), read);
}

export function readValue<T>(schema: SchemaOf<T>, value: unknown, report: Report): T | undefined {
  const result = v.safeParse(schema, value, { abortPipeEarly: true });
  if (result.success) return result.output;
  for (const issue of result.issues) {
    const { path, message } = problemOf(issue);
    report(path, message);
  }
  return undefined;
}

export type Parsed<T> =
  | { readonly kind: "valid"; readonly output: T }
  | { readonly kind: "invalid"; readonly problems: readonly Problem[] };

/** Never throws; problems have `path` before their own. */
export function parsed<T>(schema: SchemaOf<T>, value: unknown, path: ConfigPath): Parsed<T> {
  const problems: Problem[] = [];
  const output = readValue(schema, value, (below, message) => {
    problems.push({ path: [...path, ...below], message });
    return undefined;
  });
  return output === undefined ? { kind: "invalid", problems } : { kind: "valid", output };
}

/** Chooses among schemas by the text of the field `tag`, which the chosen schema does not see. */
export function tagged<T>(
  tag: string,
  schemas: Readonly<Record<string, SchemaOf<T>>>,
  { nameOf = (text) => text, wanted, hint = () => wanted }: {
    nameOf?(text: string): string;
    readonly wanted: string;
    /** The message about an unknown name; default `wanted`. */
    hint?(name: string): string;
  },
): SchemaOf<T> {
  return reader((value, report) => {
    if (!isRecord(value)) return report([], "must be an object");
    const { [tag]: text, ...fields } = value;
    if (text === undefined) return report([tag], `is missing; it ${wanted}`);
    const name = typeof text === "string" ? nameOf(text) : "";
    const schema = Object.hasOwn(schemas, name) ? schemas[name] : undefined;
    return schema ? readValue(schema, fields, report) : report([tag], hint(name));
  });
}
