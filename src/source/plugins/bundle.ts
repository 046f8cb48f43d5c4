/**
 * A plugin's file, and all that it imports, as one text. Files are read only here, so that the digest
 * covers exactly what was bundled.
 *
 * The digest covers the sources, not the text: the runtime in the executable makes the text, and a pin must
 * not break with another version of it. For one file it is the output of `sha256sum FILE`; for several
 * files it is the SHA-256 of the output lines of `sha256sum`, sorted by path from the file's directory.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { dirname, extname, relative } from "node:path";
import { messageOf } from "../../base/mod.ts";
import { FOR_AUTHORS, LIBRARIES } from "../../plugin/mod.ts";
import { bunJoin } from "./bun_join.ts";
import { type JoinedModules, type Loader, moduleJoin, type ModuleSource } from "./module_join.ts";
import { BUNDLE_EXTENSION, readBundle } from "./plugin_bundle.ts";
import type { PluginWatch } from "./plugin_watch.ts";

export interface Bundled extends JoinedModules {
  /** SHA-256, as a hexadecimal text. */
  readonly digest: string;
  readonly libraries: readonly string[];
  /** Paths of the files that were read. */
  readonly files: readonly string[];
}

const TEXT_LIMIT_BYTES = 4 * 1024 * 1024;
/** A worker holds the map for as long as the plugin may fail. Errors have no place without one. */
const MAP_LIMIT_CHARS = 1024 * 1024;
const SOURCES_LIMIT_BYTES = 4 * TEXT_LIMIT_BYTES;

const LOADERS: Readonly<Record<string, Loader>> = {
  ".ts": "ts",
  ".mts": "ts",
  ".cts": "ts",
  ".tsx": "tsx",
  ".js": "js",
  ".mjs": "js",
  ".cjs": "js",
  ".jsx": "jsx",
  ".json": "json",
  [BUNDLE_EXTENSION]: "json",
};

/** Rejects with the fault of the file at that absolute path, in a text that may have several lines. */
export async function bundle(
  path: string,
  { lent = LIBRARIES, watch }: {
    /** Modules that come from the executable; absent: those that it lends to plugins. */
    readonly lent?: readonly string[];
    /** Gets the path of each file before it is read. */
    readonly watch?: PluginWatch | undefined;
  } = {},
): Promise<Bundled> {
  const sources = new Sources(watch);
  const join = bunJoin() ?? moduleJoin;
  await sources.look(path);
  const read = (of: string) => sources.read(of);
  if (extname(path) === BUNDLE_EXTENSION) {
    const { contents } = await read(path);
    const joined = readBundle(contents, path);
    return { ...joined, digest: sources.digest(dirname(path)), files: sources.files };
  }
  const joined = join(path, read, [...lent, ...FOR_AUTHORS]);
  const { text, map, outside } = await joined.catch((error) => {
    // The error of the bundler has fewer details.
    throw sources.fault ?? error;
  });
  if (Buffer.byteLength(text) > TEXT_LIMIT_BYTES) {
    throw new Error(tooLong("it is", TEXT_LIMIT_BYTES));
  }
  const libraries = lent.filter((library) => outside.some(({ name }) => name === library));
  return {
    text,
    map: map.length > MAP_LIMIT_CHARS ? "" : map,
    outside,
    libraries,
    digest: sources.digest(dirname(path)),
    files: sources.files,
  };
}

class Sources {
  fault: Error | undefined;
  /** Digests by path. */
  readonly #read = new Map<string, string>();
  readonly #watch: PluginWatch | undefined;
  #length = 0;

  constructor(watch: PluginWatch | undefined) {
    this.#watch = watch;
  }

  get files(): readonly string[] {
    return [...this.#read.keys()];
  }

  /** Is there a module that can be read? Rejects with why not. */
  async look(path: string): Promise<Loader> {
    await this.#watch?.add(path);
    try {
      const loader = LOADERS[extname(path)];
      if (!loader) throw new Error("it is neither TypeScript, JavaScript, JSON nor a bundle");
      const found = await stat(path);
      // A pipe or a device would be read for ever.
      if (!found.isFile()) throw new Error("it is no file");
      if (found.size > SOURCES_LIMIT_BYTES) throw new Error(tooLong("it is", SOURCES_LIMIT_BYTES));
      return loader;
    } catch (error) {
      throw this.#failed(path, error);
    }
  }

  async read(path: string): ReturnType<ModuleSource> {
    const loader = await this.look(path);
    try {
      const bytes = await readFile(path);
      this.#length += bytes.length;
      if (this.#length > SOURCES_LIMIT_BYTES) {
        throw new Error(tooLong("all that is imported is", SOURCES_LIMIT_BYTES));
      }
      this.#read.set(path, sha256(bytes));
      const contents = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
      return { contents, loader };
    } catch (error) {
      throw this.#failed(path, error);
    }
  }

  #failed(path: string, error: unknown): Error {
    return this.fault ??= new Error(`Cannot read ${path}: ${factOf(error)}`, { cause: error });
  }

  digest(directory: string): string {
    const [only, ...others] = this.#read.values();
    if (only !== undefined && others.length === 0) return only;
    const all = [...this.#read].map(([path, digest]) =>
      [relative(directory, path), digest] as const
    );
    all.sort(([a], [b]) => a < b ? -1 : 1);
    return sha256(all.map(([path, digest]) => `${digest}  ${path}\n`).join(""));
  }
}

export function sha256(content: string | Uint8Array): string {
  return createHash("sha256").update(content).digest("hex");
}

function tooLong(what: string, limitBytes: number): string {
  return `${what} longer than ${limitBytes} bytes`;
}

function factOf(error: unknown): string {
  const code = error instanceof Error && "code" in error ? error.code : "";
  return code === "ENOENT" ? "there is no such file" : messageOf(error);
}
