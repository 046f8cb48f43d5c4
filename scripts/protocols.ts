/**
 * Turns each `.proto` file of `src` into a module beside it that holds the same as plain data, which is
 * what the executable carries: `sds.proto` becomes `sds_messages.ts`. Run it after a change:
 *
 *     deno run -A scripts/protocols.ts
 *
 * @module
 */

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import protobuf from "protobufjs";

const ROOT = join(import.meta.dirname ?? ".", "..");

/** The module's text for a `.proto` file of this name. */
export function moduleOf(name: string, text: string): string {
  const root = protobuf.parse(text, { keepCase: true }).root;
  // Of this format protobuf.js needs names and numbers; the rest repeats what "proto3" means. There is
  // no quote or backslash in it.
  const json = JSON.stringify(root.toJSON(), (key, value) => key === "options" ? undefined : value);
  return [
    `/** Messages of ${name}, made by scripts/protocols.ts: change that file, not this one. @module */`,
    "",
    "/** For `Root.fromJSON` of protobuf.js. */",
    `export const DESCRIPTOR: string =`,
    `  '${json}';`,
    "",
  ].join("\n");
}

export function protoFiles(): string[] {
  return readdirSync(join(ROOT, "src"), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".proto"))
    .map((path) => join(ROOT, "src", path))
    .sort();
}

/** Where the module of a `.proto` file lies. */
export function moduleFile(path: string): string {
  return path.replace(/\.proto$/, "_messages.ts");
}

if (import.meta.main) {
  for (const path of protoFiles()) {
    const module = moduleFile(path);
    writeFileSync(
      module,
      moduleOf(path.slice(path.lastIndexOf("/") + 1), readFileSync(path, "utf8")),
    );
    process.stdout.write(`${module}\n`);
  }
}
