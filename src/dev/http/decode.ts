/**
 * JSON bodies as Consul reads them: keys in CamelCase, snake_case or any letter case, known ones only.
 * A shape names the fields; what comes out has Consul's own spelling and nothing else.
 *
 * @module
 */

import { parseJson as parseBounded } from "../../wire/mod.ts";

export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export interface JsonObject {
  readonly [key: string]: Json;
}

/** `any` is kept as it is (opaque maps); `number` also takes Go durations where `duration` says so. */
export type Shape =
  | "string"
  | "number"
  | "bool"
  | "any"
  | { readonly kind: "list"; readonly of: Shape }
  | { readonly kind: "map"; readonly of: Shape }
  | { readonly kind: "object"; readonly fields: Readonly<Record<string, Shape>> };

export const list = (of: Shape): Shape => ({ kind: "list", of });
export const map = (of: Shape): Shape => ({ kind: "map", of });
export const object = (fields: Readonly<Record<string, Shape>>): Shape => ({
  kind: "object",
  fields,
});

/** A body that does not fit; the text is that of the offence alone. */
export class DecodeError extends Error {
  /** The unknown key, where that is what is wrong. */
  readonly unknownKey: string | undefined;

  constructor(text: string, unknownKey?: string) {
    super(text);
    this.name = "DecodeError";
    this.unknownKey = unknownKey;
  }
}

/** Parses and decodes an object. Throws {@link DecodeError}. */
export function decodeObject(text: string, shape: Shape): JsonObject {
  const value = decode(parseJson(text), shape, "");
  return isObject(value) ? value : {};
}

export function parseJson(text: string): Json {
  if (text.trim() === "") throw new DecodeError("EOF");
  try {
    return parseBounded(text) as Json;
  } catch {
    const at = /^\s*\{\s*([^\s"}])/.exec(text);
    throw new DecodeError(
      at
        ? `invalid character '${at[1]}' looking for beginning of object key string`
        : "unexpected EOF",
    );
  }
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function decode(value: Json, shape: Shape, path: string): Json {
  if (value === null || shape === "any") return value;
  if (typeof shape === "string") {
    const type = typeof value;
    if (type !== (shape === "bool" ? "boolean" : shape)) throw mismatch(value, shape, path);
    return value;
  }
  switch (shape.kind) {
    case "list":
      if (!Array.isArray(value)) throw mismatch(value, "list", path);
      return (value as readonly Json[]).map((item) => decode(item, shape.of, path));
    case "map":
      if (!isObject(value)) throw mismatch(value, "map", path);
      return Object.fromEntries(
        Object.entries(value).map(([key, item]) => [key, decode(item, shape.of, path)]),
      );
    case "object":
      if (!isObject(value)) throw mismatch(value, "struct", path);
      return decodeFields(value, shape.fields, path);
    default:
      return shape satisfies never;
  }
}

function decodeFields(
  value: JsonObject,
  fields: Readonly<Record<string, Shape>>,
  path: string,
): JsonObject {
  const names = new Map(Object.keys(fields).map((name) => [plain(name), name]));
  const result: Record<string, Json> = {};
  for (const [key, item] of Object.entries(value)) {
    const name = names.get(plain(key));
    const shape = name === undefined ? undefined : fields[name];
    if (name === undefined || shape === undefined) {
      throw new DecodeError(`json: unknown field "${key}"`, path === "" ? key : `${path}.${key}`);
    }
    result[name] = decode(item, shape, path === "" ? name : `${path}.${name}`);
  }
  return result;
}

function plain(key: string): string {
  return key.replaceAll("_", "").toLowerCase();
}

function mismatch(value: Json, want: string, path: string): DecodeError {
  const got = Array.isArray(value) ? "array" : typeof value === "boolean" ? "bool" : typeof value;
  return new DecodeError(`json: cannot unmarshal ${got} into field ${path} of type ${want}`);
}
