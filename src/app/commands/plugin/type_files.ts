/** The types that an author's editor and our check need. @module */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { KIT_TYPES } from "../../../kit/mod.ts";
import { CONTRACT_TEXT } from "../../../plugin/mod.ts";
import nodeText from "./node_types.d.ts" with { type: "text" };

export type TypeFiles = Readonly<Record<string, string>>;

/** The file beside this one in the executable, where there is no `node_modules`. */
export const PACKED_NAME = "type_files.json.gz";

/** Files with the types of the modules that a plugin imports, below the directory of types. */
export const TYPES_OF = {
  "postern": "postern.d.ts",
  "postern/kit": "postern_kit.d.ts",
  "valibot": "valibot.d.ts",
  "jose": "jose/index.d.ts",
} as const;

/** Prefix of files that only a compiler needs: an editor has its own. */
export const LANGUAGE = "typescript/";

/** Language and globals of a plugin, which runs in a worker: no page, no `document`. */
export const LANGUAGE_LIBS = ["esnext", "webworker"];

let read: Promise<TypeFiles> | undefined;

export function typeFiles(): Promise<TypeFiles> {
  return read ??= Promise.try(readAll);
}

function readAll(): TypeFiles {
  const packed = new URL(`./${PACKED_NAME}`, import.meta.url);
  const libraries = existsSync(packed)
    ? JSON.parse(gunzipSync(readFileSync(packed)).toString()) as TypeFiles
    : filesOfPackages();
  return {
    [TYPES_OF.postern]: CONTRACT_TEXT,
    [TYPES_OF["postern/kit"]]: KIT_TYPES,
    "node.d.ts": nodeText,
    ...libraries,
  };
}

export function packedTypes(): Uint8Array {
  return gzipSync(JSON.stringify(filesOfPackages()), { level: 9 });
}

function filesOfPackages(): TypeFiles {
  const jose = directoryOf("jose");
  const files: Record<string, string> = {
    [TYPES_OF.valibot]: text(join(directoryOf("valibot"), "dist/index.d.mts")),
  };
  const types = join(jose, "dist/types");
  for (const name of readdirSync(types, { recursive: true })) {
    if (String(name).endsWith(".d.ts")) files[`jose/${name}`] = text(join(types, String(name)));
  }
  const lib = join(directoryOf("typescript"), "lib");
  const wanted = LANGUAGE_LIBS.map((name) => `lib.${name}.d.ts`);
  for (const name of wanted) {
    const content = text(join(lib, name));
    files[`${LANGUAGE}${name}`] = content;
    for (const [, other] of content.matchAll(/<reference lib="([^"]+)"/g)) {
      const next = `lib.${other}.d.ts`;
      if (!wanted.includes(next)) wanted.push(next);
    }
  }
  return files;
}

function directoryOf(name: string): string {
  const require = createRequire(import.meta.url);
  let directory = dirname(require.resolve(name));
  while (!existsSync(join(directory, "package.json"))) directory = dirname(directory);
  return directory;
}

function text(path: string): string {
  return readFileSync(path, "utf8");
}
