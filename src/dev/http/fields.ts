/**
 * Fields of decoded JSON, with their empty value where absent or of another type.
 *
 * @module
 */

import { parseDurationMs } from "../../base/mod.ts";
import { isObject, type JsonObject } from "./decode.ts";

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

export function textsAt(object: JsonObject, key: string): readonly string[] {
  const value = object[key];
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
}

/** A Go duration: text, or nanoseconds as a number. */
export function durationAt(object: JsonObject, key: string): number {
  const value = object[key];
  if (typeof value === "number") return value / 1e6;
  return typeof value === "string" && value !== "" ? parseDurationMs(value) ?? 0 : 0;
}
