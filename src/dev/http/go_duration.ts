/**
 * Durations as they stand in config entries: Go text with several units, or nanoseconds.
 *
 * @module
 */

import { parseDurationMs } from "../../base/mod.ts";
import type { Json, JsonObject } from "./decode.ts";
import { Refusal } from "./refusal.ts";

/** Nanoseconds of a duration given as text or as a number of nanoseconds; 400 where it is neither. */
export function durationNs(value: Json, key: string): number {
  if (typeof value === "number") return value;
  const ms = typeof value === "string" ? value === "" ? 0 : parseDurationMs(value) : undefined;
  if (ms !== undefined) return Math.round(ms * 1e6);
  throw new Refusal(
    400,
    "Request decoding failed: decoding failed due to the following error(s):\n\n" +
      `'${key}' time: invalid duration "${String(value)}"`,
  );
}

/** `90s` as `1m30s`, `7` nanoseconds as `7ns`: Go's `Duration.String`. */
export function goDuration(ns: number): string {
  if (ns === 0) return "0s";
  const sign = ns < 0 ? "-" : "";
  const size = Math.abs(ns);
  if (size < 1e3) return `${sign}${size}ns`;
  if (size < 1e6) return `${sign}${trim(size / 1e3)}µs`;
  if (size < 1e9) return `${sign}${trim(size / 1e6)}ms`;
  const hours = Math.floor(size / 3.6e12);
  const minutes = Math.floor(size / 6e10) % 60;
  const seconds = trim((size % 6e10) / 1e9);
  if (hours > 0) return `${sign}${hours}h${minutes}m${seconds}s`;
  return minutes > 0 ? `${sign}${minutes}m${seconds}s` : `${sign}${seconds}s`;
}

function trim(value: number): string {
  return String(Number(value.toFixed(9)));
}

/** The object with the durations under `keys` as nanoseconds. */
export function withNs(object: JsonObject, keys: readonly string[]): JsonObject {
  const result: Record<string, Json> = { ...object };
  for (const key of keys) {
    if (key in object) result[key] = durationNs(object[key] ?? null, key);
  }
  return result;
}
