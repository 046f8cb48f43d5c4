/**
 * Schemas for Envoy's messages in proto3's JSON: each field in snake_case or lowerCamelCase, `null` for
 * nothing, and every problem at the path as it was written.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import * as v from "valibot";
import { notKnown, type Path, problemOf } from "../values.ts";

/** A schema for anything; it decides what comes out. */
export type Reader<T> = v.GenericSchema<unknown, T>;

type Output<T extends v.ObjectEntries> = v.InferOutput<v.ObjectSchema<T, undefined>>;

export interface MessageOptions {
  /** How names are shown where none was written: Envoy's documentation, or our own. */
  readonly names?: "snake_case" | "camelCase";
  /** For fields that some people look for here: why not. By their camelCase names. */
  readonly refused?: Readonly<Record<string, string>>;
}

/** A strict object; `entries` has lowerCamelCase names. Refuses fields of both spellings at once. */
export function message<T extends v.ObjectEntries>(
  entries: T,
  options: MessageOptions = {},
): Reader<Output<T>> {
  const shown = (key: string) => options.names === "camelCase" ? key : snakeCase(key);
  const known = Object.keys(entries).map(shown);
  const names = new Map(
    [...Object.keys(entries), ...Object.keys(options.refused ?? {})].flatMap((key) => [
      [key, key],
      [snakeCase(key), key],
    ]),
  );
  const schema = v.object(
    entries,
    (issue) => issue.received === "undefined" && issue.path ? "is missing" : "must be an object",
  );
  return reader((value, report) => {
    if (!isRecord(value)) return report([], "must be an object");
    const written = new Map<string, string>();
    const fields: Record<string, unknown> = Object.create(null);
    for (const [key, field] of Object.entries(value)) {
      const name = names.get(key);
      if (name === undefined) report([key], notKnown(key, known));
      else if (field === null || field === undefined) continue;
      else if (options.refused && Object.hasOwn(options.refused, name)) {
        if (!isDefault(field)) report([key], options.refused[name] ?? "");
      } else if (written.has(name)) report([key], `is given as "${written.get(name)}", too`);
      else {
        written.set(name, key);
        fields[name] = field;
      }
    }
    const result = v.safeParse(schema, fields, { abortPipeEarly: true });
    if (result.success) return result.output;
    for (const { path: [name = "", ...rest], message } of result.issues.map(problemOf)) {
      report([written.get(String(name)) ?? shown(String(name)), ...rest], message);
    }
    return undefined;
  });
}

/** Says what is wrong at a path below the value. */
export type Report = (path: Path, message: string) => undefined;

/** A schema out of a function, which reports as often as it likes; what it reported on is dropped. */
export function reader<T>(read: (value: unknown, report: Report) => T | undefined): Reader<T> {
  return v.pipe(
    v.unknown(),
    v.rawTransform<unknown, T>(({ dataset, addIssue, NEVER }) => {
      let sound = true;
      const output = read(dataset.value, (path, message) => {
        sound = false;
        const [first, ...rest] = path.map((key) => itemOf(key));
        addIssue(first ? { message, path: [first, ...rest] } : { message });
        return undefined;
      });
      return sound ? output as T : NEVER;
    }),
  );
}

/** Reads a value at `path` with another schema; what is wrong with it is reported. */
export function follow<T>(
  schema: Reader<T>,
  value: unknown,
  { report, path = [] }: { readonly report: Report; readonly path?: Path },
): T | undefined {
  const result = v.safeParse(schema, value, { abortPipeEarly: true });
  if (result.success) return result.output;
  for (const problem of result.issues.map(problemOf)) {
    report([...path, ...problem.path], problem.message);
  }
  return undefined;
}

/** `schema`, then what no single field shows. */
export function checked<T, U>(
  schema: Reader<T>,
  check: (value: T, report: Report) => U | undefined,
): Reader<U> {
  return reader((value, report) => {
    const result = v.safeParse(schema, value, { abortPipeEarly: true });
    if (result.success) return check(result.output, report);
    for (const problem of result.issues.map(problemOf)) report(problem.path, problem.message);
    return undefined;
  });
}

function itemOf(key: string | number): v.IssuePathItem {
  return { type: "unknown", origin: "value", input: undefined, key, value: undefined };
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) &&
    !ArrayBuffer.isView(value);
}

/** What proto3 takes for a field that is not there. */
function isDefault(value: unknown): boolean {
  return value === false || value === "" || value === 0 ||
    (Array.isArray(value) && value.length === 0);
}

export function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

export function flag(): v.GenericSchema<boolean> {
  return v.boolean("must be true or false");
}

/** A list that is empty where it is not there. */
export function list<T>(
  item: v.GenericSchema<unknown, T>,
  most: number,
): v.GenericSchema<T[] | undefined, T[]> {
  return v.optional(
    v.pipe(
      v.array(v.unknown(), "must be a list"),
      // Before any is looked at: one that is wrong costs a hundred times its bytes.
      v.maxLength(most, most === 1 ? "has more than one entry" : `has more than ${most} entries`),
      v.array(item),
    ) as unknown as v.GenericSchema<T[]>,
    [],
  );
}

/** A whole number, which proto3's JSON may also write as a text. */
export function number(least: number, most: number): Reader<number> {
  const wanted = `must be a whole number from ${least} to ${most}`;
  return reader((value, report) => {
    const found = typeof value === "string" && /^-?\d{1,15}$/.test(value) ? Number(value) : value;
    if (typeof found !== "number" || !Number.isInteger(found)) return report([], wanted);
    return found < least || found > most ? report([], wanted) : found;
  });
}

/** One of an enum's values, by name or number. */
export function choice<T>(
  values: readonly { readonly name: string; readonly number: number; readonly value: T }[],
): Reader<T> {
  const wanted = `must be ${values.map(({ name }) => name).join(", ")}`;
  return reader((value, report) => {
    const found = values.find(({ name, number }) => value === name || value === number);
    return found ? found.value : report([], wanted);
  });
}

/** A text that keeps its line ends: PEM, JSON. */
export function longText(limit: number): v.GenericSchema<string> {
  return v.pipe(
    v.string("must be a text"),
    v.maxLength(limit, `is longer than ${limit} characters`),
  );
}

/** Base64 of either alphabet, or bytes as they are. */
export function bytes(limit: number): Reader<Uint8Array> {
  return reader((value, report) => {
    if (value instanceof Uint8Array) {
      return value.length > limit ? report([], `is longer than ${limit} bytes`) : value;
    }
    if (typeof value !== "string" || !/^[\w+/-]*={0,2}$/.test(value)) {
      return report([], "must be base64");
    }
    if (value.length > limit * 4 / 3 + 4) return report([], `is longer than ${limit} bytes`);
    // Takes both alphabets, with padding and without.
    return new Uint8Array(Buffer.from(value, "base64"));
  });
}

const TYPE_PREFIX = "type.googleapis.com/";

/** `Any` in JSON: the fields of one message beside its "@type". By the types' full names. */
export function anyOf<T>(types: Readonly<Record<string, Reader<T>>>): Reader<T> {
  const wanted = Object.keys(types).map((type) => TYPE_PREFIX + type).join(" or ");
  return reader((value, report) => {
    if (!isRecord(value)) return report([], "must be an object");
    const { "@type": type, ...fields } = value;
    if (type === undefined) return report(["@type"], `is missing; it must be ${wanted}`);
    const name = typeof type === "string" ? type.slice(type.lastIndexOf("/") + 1) : "";
    const schema = Object.hasOwn(types, name) ? types[name] : undefined;
    if (!schema) return report(["@type"], `must be ${wanted}`);
    return follow(schema, fields, { report });
  });
}

/** The one member of a oneof that is given, or what to say about it. */
export function oneOf(value: object, names: readonly string[]): { name: string } | string {
  const given = names.filter((name) => (value as Record<string, unknown>)[name] !== undefined);
  const [first, ...more] = given;
  if (first === undefined) return `needs one of ${names.map(snakeCase).join(", ")}`;
  if (more.length > 0) return `has ${given.map(snakeCase).join(" and ")}, of which only one may be`;
  return { name: first };
}
