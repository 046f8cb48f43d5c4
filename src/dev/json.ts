/** JSON values and their fields. A reader returns the empty value for any other type. @module */

import { parseDurationMs } from "../base/mod.ts";

export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;
export interface JsonObject {
  readonly [key: string]: JsonValue;
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function textAt(object: JsonObject, key: string): string {
  const value = object[key];
  return typeof value === "string" ? value : "";
}

export function numberAt(object: JsonObject, key: string): number {
  const value = object[key];
  return typeof value === "number" ? value : 0;
}

export function objectAt(object: JsonObject, key: string): JsonObject {
  const value = object[key];
  return isObject(value) ? value : {};
}

export function objectsAt(object: JsonObject, key: string): readonly JsonObject[] {
  const value = object[key];
  return Array.isArray(value) ? (value as readonly JsonValue[]).filter(isObject) : [];
}

export function textsAt(object: JsonObject, key: string): readonly string[] {
  const value = object[key];
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
}

/** Milliseconds of a Go duration: a text, or a number of nanoseconds. */
export function durationMsAt(object: JsonObject, key: string): number {
  const value = object[key];
  if (typeof value === "number") return value / 1e6;
  return typeof value === "string" && value !== "" ? parseDurationMs(value) ?? 0 : 0;
}

/** True when Go leaves the value out of a field with `omitempty`. */
export function isEmpty(value: JsonValue | undefined): boolean {
  if (Array.isArray(value)) return value.length === 0;
  return isObject(value) ? Object.keys(value).length === 0 : !value;
}

/** The object without those of `keys` that are empty; absent: without all of its empty fields. */
export function withoutEmpty(
  object: JsonObject,
  keys: readonly string[] = Object.keys(object),
): JsonObject {
  return Object.fromEntries(
    Object.entries(object).filter(([key, value]) => !(keys.includes(key) && isEmpty(value))),
  );
}

/** JSON with sorted keys: equal content gives equal text. */
export function stableJson(value: unknown): string {
  const sorted = (_key: string, item: unknown) => {
    if (!isObject(item)) return item;
    return Object.fromEntries(Object.entries(item).sort(([a], [b]) => a < b ? -1 : 1));
  };
  return JSON.stringify(value, sorted);
}
