/**
 * Turns the `.proto` files of `src` into one module that holds the same as plain data, which is what the
 * executable carries. Run it after a change:
 *
 *     deno run -A scripts/protocols.ts
 *
 * @module
 */

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import process from "node:process";
import protobuf from "protobufjs";

const SOURCE = join(import.meta.dirname ?? ".", "..", "src");

/** The module that is made. */
export const MODULE_FILE = join(SOURCE, "secrets", "grpc", "proto_descriptors.ts");

export function protoFiles(): string[] {
  return readdirSync(SOURCE, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".proto"))
    .map((path) => join(SOURCE, path))
    .sort();
}

/** The module's text for these `.proto` files. */
export function moduleOf(paths: readonly string[]): string {
  return [
    "/** What `.proto` files say, made by scripts/protocols.ts: change those, not this one. @module */",
    "",
    "/** By name: for `Root.fromJSON` of protobuf.js. */",
    "export const DESCRIPTORS = {",
    ...paths.map((path) => `  ${basename(path, ".proto")}:\n    '${descriptorOf(path)}',`),
    "} as const;",
    "",
  ].join("\n");
}

function descriptorOf(path: string): string {
  const { root } = protobuf.parse(readFileSync(path, "utf8"), { keepCase: true });
  // Of this format protobuf.js needs names and numbers; the rest repeats what "proto3" means. There is
  // no quote or backslash in it.
  return JSON.stringify(root.toJSON(), (key, value) => key === "options" ? undefined : value);
}

if (import.meta.main) {
  writeFileSync(MODULE_FILE, moduleOf(protoFiles()));
  process.stdout.write(`${MODULE_FILE}\n`);
}
