/**
 * Files of plans by absolute paths: where a configuration says `web.pem`, it means one beside itself.
 *
 * @module
 */

import { resolve } from "node:path";

/** Every file that is named in `value`, from `directory`. */
export function withPaths<T>(value: T, directory: string): T {
  if (Array.isArray(value)) return value.map((item) => withPaths(item, directory)) as T;
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value;
  const entries = Object.entries(value).map(([key, item]) => [key, withPaths(item, directory)]);
  const copy = Object.fromEntries(entries);
  const isFile = copy.kind === "file" || copy.kind === "secret_file" || "watchModify" in copy;
  if (isFile && typeof copy.path === "string") copy.path = resolve(directory, copy.path);
  return copy as T;
}
