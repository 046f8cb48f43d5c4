/**
 * Paths and checks of an application that are exposed without mTLS: how they are kept and merged, and
 * what is refused of a registration. Config entries take any.
 *
 * @module
 */

import { dropEmpty } from "../catalog/records.ts";
import { isObject, type Json, type JsonObject } from "../http/decode.ts";
import { numberAt, textAt } from "../http/fields.ts";

export function normalExpose(expose: JsonObject): JsonObject {
  const paths = pathsOf(expose).map((path) => dropEmpty(path, Object.keys(path)));
  return dropEmpty({ ...expose, Paths: paths }, ["Checks", "Paths"]);
}

/** Checks where anybody exposes them; paths of the first of `from` that has any. */
export function mergedExpose(...from: readonly JsonObject[]): JsonObject {
  const paths = from.map(pathsOf).find((list) => list.length > 0) ?? [];
  return dropEmpty({
    Checks: from.some(({ Checks: checks }) => checks === true),
    Paths: paths.map((path) => ({ ...path, ParsedFromCheck: false })),
  }, ["Checks", "Paths"]);
}

/** Why Consul would not register a proxy that exposes this; `undefined`: it would. */
export function exposeFault(expose: JsonObject): string | undefined {
  const ports = new Set<number>();
  for (const path of pathsOf(expose)) {
    const port = numberAt(path, "ListenerPort");
    const name = textAt(path, "Path");
    const protocol = textAt(path, "Protocol");
    if (name === "") return "expose.paths: empty path exposed";
    if (ports.has(port)) return "expose.paths: duplicate listener ports exposed";
    ports.add(port);
    if (port <= 0 || port > 65535) return `expose.paths: invalid listener port: ${port}`;
    if (!["", "http", "http2"].includes(protocol)) {
      return `protocol '${protocol}' not supported for path: ${name}, must be in: [http http2]`;
    }
  }
  return undefined;
}

function pathsOf(expose: JsonObject): readonly JsonObject[] {
  const paths = expose["Paths"];
  return Array.isArray(paths) ? (paths as readonly Json[]).filter(isObject) : [];
}
