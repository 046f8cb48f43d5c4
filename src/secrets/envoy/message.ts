/**
 * Schemas for Envoy's messages in proto3's JSON: each field in snake_case or lowerCamelCase, `null` for
 * nothing, and every problem at the path as it was written.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import * as v from "valibot";
import { type ConfigPath, notKnown, object, problemOf } from "../values.ts";

/** A schema for anything; it decides what comes out. */
export type MessageReaderOf<T> = v.GenericSchema<unknown, T>;

type Output<T extends v.ObjectEntries> = v.InferOutput<v.ObjectSchema<T, undefined>>;

export interface MessageOptions {
  /** How names are shown where none was written: Envoy's documentation, or our own. */
  readonly names?: "snake_case" | "camelCase";
  /** For fields that some people look for here: why not. By their camelCase names. */
  readonly refused?: Readonly<Record<string, string>>;
  /** Of these fields one must be given, and no more; of {@link atMostOne} there may be none. */
  readonly oneOf?: readonly string[];
  readonly atMostOne?: readonly string[];
  /** Fields that are not known have no meaning here. */
  readonly loose?: true;
}

/**
 * A strict object; `entries` has lowerCamelCase names. Refuses fields of both spellings at once. Only
 * what is written is in what comes out, and defaults.
 */
export function message<T extends v.ObjectEntries>(
  entries: T,
  options: MessageOptions = {},
): MessageReaderOf<Output<T>> {
  const { names, refused = {}, oneOf = [], atMostOne = oneOf, loose = false } = options;
  const shown = names === "camelCase" ? (key: string) => key : snakeCase;
  const known = Object.keys(entries).map(shown);
  const nameOf = new Map(
    Object.keys({ ...entries, ...refused }).flatMap((key) => [[key, key], [snakeCase(key), key]]),
  );
  const schema = object(entries);
  return reader((value, report) => {
    if (!isRecord(value)) return report([], "must be an object");
    let sound = true;
    const refuse: Report = (path, message) => {
      sound = false;
      return report(path, message);
    };
    const written = new Map<string, string>();
    const fields: Record<string, unknown> = Object.create(null);
    for (const [key, field] of Object.entries(value)) {
      const name = nameOf.get(key);
      if (name === undefined) {
        if (!loose) refuse([key], notKnown(key, known));
      } else if (field === null || field === undefined) continue;
      else if (Object.hasOwn(refused, name)) {
        if (!isDefault(field)) refuse([key], refused[name] ?? "");
      } else if (written.has(name)) refuse([key], `is given as "${written.get(name)}", too`);
      else {
        written.set(name, key);
        fields[name] = field;
      }
    }
    const found = follow(schema, fields, ([name = "", ...rest], message) => {
      return refuse([written.get(String(name)) ?? shown(String(name)), ...rest], message);
    });
    const given = atMostOne.filter((name) => written.has(name)).map(shown);
    if (!sound || given.length === 1) return found;
    if (given.length > 1) return report([], `has ${given.join(" and ")}, of which only one may be`);
    return oneOf.length === 0 ? found : report([], `needs one of ${oneOf.map(shown).join(", ")}`);
  });
}

/** A message of our own form. */
export function fieldsOf<T extends v.ObjectEntries>(
  entries: T,
  options: Omit<MessageOptions, "names"> = {},
): MessageReaderOf<Output<T>> {
  return message(entries, { ...options, names: "camelCase" });
}

/** Says what is wrong at a path below the value. */
export type Report = (path: ConfigPath, message: string) => undefined;

/** `schema`, then what no single field shows; what was reported on is dropped. */
export function checked<T, U>(
  schema: MessageReaderOf<T>,
  check: (value: T, report: Report) => U | undefined,
): MessageReaderOf<U> {
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

/** A schema out of a function, which reports as often as it likes. */
export function reader<T>(
  read: (value: unknown, report: Report) => T | undefined,
): MessageReaderOf<T> {
  return checked(v.unknown(), read);
}

/** Reads a value with a schema; what is wrong with it is reported. */
export function follow<T>(
  schema: MessageReaderOf<T>,
  value: unknown,
  report: Report,
): T | undefined {
  const result = v.safeParse(schema, value, { abortPipeEarly: true });
  if (result.success) return result.output;
  for (const issue of result.issues) {
    const { path, message } = problemOf(issue);
    report(path, message);
  }
  return undefined;
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
      // The length comes before any entry is looked at: one that is wrong costs a hundred times its bytes.
      v.maxLength(most, most === 1 ? "has more than one entry" : `has more than ${most} entries`),
      v.array(item),
    ) as unknown as v.GenericSchema<T[]>,
    [],
  );
}

/** A whole number, which proto3's JSON may also write as a text. */
export function number(least: number, most: number): MessageReaderOf<number> {
  const wanted = `must be a whole number from ${least} to ${most}`;
  return reader((value, report) => {
    const found = typeof value === "string" && /^-?\d{1,15}$/.test(value) ? Number(value) : value;
    if (typeof found !== "number" || !Number.isInteger(found)) return report([], wanted);
    return found < least || found > most ? report([], wanted) : found;
  });
}

/** One of an enum's values, by its name or number. */
export function choice<T>(
  values: Readonly<Record<string, readonly [number, T]>>,
): MessageReaderOf<T> {
  const wanted = `must be ${Object.keys(values).join(", ")}`;
  return reader((value, report) => {
    const found = Object.entries(values)
      .find(([name, [number]]) => value === name || value === number);
    return found ? found[1][1] : report([], wanted);
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
export function bytes(limit: number): MessageReaderOf<Uint8Array> {
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
export function anyOf<T>(types: Readonly<Record<string, MessageReaderOf<T>>>): MessageReaderOf<T> {
  const wanted = Object.keys(types).map((type) => TYPE_PREFIX + type).join(" or ");
  return tagged("@type", types, {
    nameOf: (type) => type.slice(type.lastIndexOf("/") + 1),
    wanted: `must be ${wanted}`,
  });
}

/** One of several messages, by the text of its field `tag`, which they do not see. */
export function tagged<T>(
  tag: string,
  schemas: Readonly<Record<string, MessageReaderOf<T>>>,
  { nameOf = (text) => text, wanted, hint = () => wanted }: {
    nameOf?(text: string): string;
    readonly wanted: string;
    /** In place of `wanted`, for a name that is not known. */
    hint?(name: string): string;
  },
): MessageReaderOf<T> {
  return reader((value, report) => {
    if (!isRecord(value)) return report([], "must be an object");
    const { [tag]: text, ...fields } = value;
    if (text === undefined) return report([tag], `is missing; it ${wanted}`);
    const name = typeof text === "string" ? nameOf(text) : "";
    const schema = Object.hasOwn(schemas, name) ? schemas[name] : undefined;
    return schema ? follow(schema, fields, report) : report([tag], hint(name));
  });
}
