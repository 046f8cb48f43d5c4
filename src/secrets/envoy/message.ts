/** Schemas for Envoy's messages in proto3's JSON, where `null` means absent; and its `DataSource`. @module */

import { Buffer } from "node:buffer";
import * as v from "valibot";
import type { DataSource, WatchedDirectory } from "../model/secret.ts";
import {
  checked,
  flag,
  isRecord,
  notKnown,
  object,
  type OutputOf,
  reader,
  readValue,
  type Report,
  type SchemaOf,
  tagged,
  text,
} from "../../base/schema.ts";

interface MessageOptions {
  /** The spelling of names in problems about absent fields: Envoy's documentation's, or our own. */
  readonly names?: "snake_case" | "camelCase";
  /** Fields of Envoy's that are not supported, by their camelCase names, with the reason. */
  readonly refused?: Readonly<Record<string, string>>;
  /** Exactly one of these fields must be given; at most one of {@link atMostOne}. */
  readonly oneOf?: readonly string[];
  readonly atMostOne?: readonly string[];
  /** Unknown fields are ignored. */
  readonly loose?: true;
}

/**
 * A strict object; `entries` has lowerCamelCase names. A field in both spellings is refused. The output
 * has the fields that were written, and defaults.
 */
export function message<T extends v.ObjectEntries>(
  entries: T,
  options: MessageOptions = {},
): SchemaOf<OutputOf<T>> {
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
    const found = readValue(schema, fields, ([name = "", ...rest], message) => {
      return refuse([written.get(String(name)) ?? shown(String(name)), ...rest], message);
    });
    const given = atMostOne.filter((name) => written.has(name)).map(shown);
    if (!sound || given.length === 1) return found;
    if (given.length > 1) return report([], `has ${given.join(" and ")}, of which only one may be`);
    return oneOf.length === 0 ? found : report([], `needs one of ${oneOf.map(shown).join(", ")}`);
  });
}

/** An object of our own form: the same in lowerCamelCase. */
export function fieldsOf<T extends v.ObjectEntries>(
  entries: T,
  options: Omit<MessageOptions, "names"> = {},
): SchemaOf<OutputOf<T>> {
  return message(entries, { ...options, names: "camelCase" });
}

/** Whether proto3 treats a value as an absent field. */
function isDefault(value: unknown): boolean {
  return value === false || value === "" || value === 0 ||
    (Array.isArray(value) && value.length === 0);
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** A whole number, which proto3's JSON may also write as a text. */
export function number(least: number, most: number): SchemaOf<number> {
  const wanted = `must be a whole number from ${least} to ${most}`;
  return reader((value, report) => {
    const found = typeof value === "string" && /^-?\d{1,15}$/.test(value) ? Number(value) : value;
    if (typeof found !== "number" || !Number.isInteger(found)) return report([], wanted);
    return found < least || found > most ? report([], wanted) : found;
  });
}

/** One of an enum's values, by its name or number. */
export function choice<T>(values: Readonly<Record<string, readonly [number, T]>>): SchemaOf<T> {
  const wanted = `must be ${Object.keys(values).join(", ")}`;
  return reader((value, report) => {
    const found = Object.entries(values)
      .find(([name, [number]]) => value === name || value === number);
    return found ? found[1][1] : report([], wanted);
  });
}

/** Base64 of either alphabet, or bytes. */
function bytes(limit: number): SchemaOf<Uint8Array> {
  return reader((value, report) => {
    if (value instanceof Uint8Array) {
      return value.length > limit ? report([], `is longer than ${limit} bytes`) : value;
    }
    if (typeof value !== "string" || !/^[\w+/-]*={0,2}$/.test(value)) {
      return report([], "must be base64");
    }
    if (value.length > limit * 4 / 3 + 4) return report([], `is longer than ${limit} bytes`);
    // Buffer reads both alphabets, with padding and without.
    return new Uint8Array(Buffer.from(value, "base64"));
  });
}

const TYPE_PREFIX = "type.googleapis.com/";

/** `Any` in JSON: the fields of one message beside its "@type". `types` has the types' full names. */
export function anyOf<T>(types: Readonly<Record<string, SchemaOf<T>>>): SchemaOf<T> {
  const wanted = Object.keys(types).map((type) => TYPE_PREFIX + type).join(" or ");
  return tagged("@type", types, {
    nameOf: (type) => type.slice(type.lastIndexOf("/") + 1),
    wanted: `must be ${wanted}`,
  });
}

export interface SecretOptions {
  /** Whether files and environment variables of this machine may be named: not by a server. */
  readonly allowFiles: boolean;
}

/** More than the largest bundle of roots in use. */
const INLINE_LIMIT_BYTES = 4 * 1024 * 1024;

export function dataSource({ allowFiles }: SecretOptions): SchemaOf<DataSource> {
  const fields = message({
    filename: v.exactOptional(text()),
    inlineBytes: v.exactOptional(bytes(INLINE_LIMIT_BYTES)),
    // It keeps its line ends: PEM, JSON.
    inlineString: v.exactOptional(v.pipe(
      v.string("must be a text"),
      v.maxLength(INLINE_LIMIT_BYTES, `is longer than ${INLINE_LIMIT_BYTES} characters`),
    )),
    environmentVariable: v.exactOptional(text()),
  }, {
    oneOf: ["filename", "inlineBytes", "inlineString", "environmentVariable"],
    refused: {
      watchedDirectory:
        "cannot be honoured here; a file's own directory is always watched, and the " +
        "secret may have a watched_directory",
    },
  });
  return checked(fields, (found, report): DataSource | undefined => {
    const { filename, inlineBytes, inlineString, environmentVariable: variable = "" } = found;
    if (inlineBytes !== undefined) return { kind: "inline", bytes: inlineBytes };
    if (inlineString !== undefined) {
      return { kind: "inline", bytes: new TextEncoder().encode(inlineString) };
    }
    if (!allowFiles) {
      return report([], "must be inline: a server's secret may not name files or variables here");
    }
    return filename === undefined
      ? { kind: "environment", variable }
      : { kind: "file", path: filename };
  });
}

export function watchedDirectory({ allowFiles }: SecretOptions): SchemaOf<WatchedDirectory> {
  const fields = message({ path: text(), watchModify: v.optional(flag(), false) });
  return checked(fields, (directory, report) => {
    if (allowFiles) return directory;
    return report([], "cannot be honoured: a server's secret may not name directories here");
  });
}
