/**
 * The text of a configuration: one file, or the files of a directory joined to one value. Tells the place of
 * each value in its file.
 *
 * @module
 */

import { open, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { messageOf, ProxyError } from "../../base/mod.ts";
import { type ConfigPath, isRecord, type Problem } from "../../base/schema.ts";
import {
  type JsonPosition,
  type JsonPositions,
  readJson,
  readYaml,
  withoutComments,
} from "../../wire/mod.ts";

export interface ConfigPlace extends JsonPosition {
  /** Name of the file, where there are several. */
  readonly file?: string;
}

export type ConfigDocument =
  | {
    readonly kind: "valid";
    readonly value: unknown;
    placeOf(path: ConfigPath): ConfigPlace;
    /** Keys given twice. */
    readonly problems: readonly Problem[];
    /** A text may have a regular expression. */
    readonly texts: readonly string[];
    /** Relative paths begin here: a path below it. */
    readonly file: string;
    readonly warnings: readonly string[];
  }
  | { readonly kind: "invalid"; readonly message: string; readonly place: ConfigPlace };

const LIMIT_BYTES = 4 * 1024 * 1024;
const FILES_LIMIT = 256;
const YAML = /\.ya?ml$/i;
const CONFIG = /\.(?:json|ya?ml)$/i;

/** Lists that each file of a directory adds to. Any other list, text or number is given once. */
const JOINED_LISTS = ["upstreams", "intentions"];

/** Reads a file or a directory; throws `config_invalid` where it cannot be read. */
export async function readConfigDocument(path: string): Promise<ConfigDocument> {
  const isDirectory = await stat(path).then((found) => found.isDirectory(), () => false);
  if (!isDirectory) return await documentOf(await readText(path, LIMIT_BYTES), path);
  const names = await namesIn(path);
  const parts: DirectoryPart[] = [];
  let leftBytes = LIMIT_BYTES;
  for (const name of names.configs) {
    const file = join(path, name);
    const text = await readText(file, leftBytes);
    leftBytes -= text.length;
    const document = await documentOf(text, file);
    if (document.kind === "invalid") {
      return { ...document, place: { ...document.place, file: name } };
    }
    if (!isRecord(document.value)) {
      const place = { ...document.placeOf([]), file: name };
      return { kind: "invalid", message: "must be an object", place };
    }
    const { $schema: _ofTheFile, ...value } = document.value;
    parts.push({ name, document, value });
  }
  const warnings = names.others.map((name) =>
    `${name} in ${path} is ignored: its name does not end in .json, .yaml or .yml`
  );
  return joined(parts, { file: join(path, names.configs[0] ?? ""), warnings });
}

/** The document of a text; the name's ending tells the format, JSON where it is another one. */
export async function documentOf(text: string, file: string): Promise<ConfigDocument> {
  // A byte order mark has no meaning in UTF-8; some editors write it.
  const own = text.replace(/^\ufeff/, "");
  return YAML.test(file)
    ? documentFrom(await readYaml(own), { text, file, format: "YAML that can be taken" })
    : jsonDocument(text, file);
}

/** JSON with comments. */
export function jsonDocument(text: string, file: string): ConfigDocument {
  const json = readJson(withoutComments(text.replace(/^\ufeff/, "")));
  return documentFrom(json, { text, file, format: "JSON" });
}

function documentFrom(
  read: JsonPositions,
  { text, file, format }: { readonly text: string; readonly file: string; readonly format: string },
): ConfigDocument {
  if (read.kind === "invalid") {
    return { kind: "invalid", message: `is not ${format}: ${read.reason}`, place: read.place };
  }
  return {
    ...read,
    problems: read.duplicates.map(({ path }) => ({ path, message: "is given twice" })),
    texts: [text],
    file,
    warnings: [],
  };
}

interface DirectoryPart {
  readonly name: string;
  readonly document: Extract<ConfigDocument, { kind: "valid" }>;
  readonly value: Readonly<Record<string, unknown>>;
}

function joined(
  parts: readonly DirectoryPart[],
  { file, warnings }: Pick<Extract<ConfigDocument, { kind: "valid" }>, "file" | "warnings">,
): ConfigDocument {
  const problems: Problem[] = [];
  const value: Record<string, unknown> = {};
  const join = (into: Record<string, unknown>, from: DirectoryPart, path: readonly string[]) => {
    const added = path.reduce<unknown>((at, key) => isRecord(at) ? at[key] : at, from.value);
    for (const [key, own] of Object.entries(isRecord(added) ? added : {})) {
      const here = [...path, key];
      const earlier = Object.hasOwn(into, key) ? into[key] : undefined;
      const isList = path.length === 0 && JOINED_LISTS.includes(key);
      if (isRecord(own) && (earlier === undefined || isRecord(earlier))) {
        const below: Record<string, unknown> = { ...earlier };
        set(into, key, below);
        join(below, from, here);
      } else if (earlier === undefined) set(into, key, own);
      else if (isList && Array.isArray(earlier) && Array.isArray(own)) {
        into[key] = [...earlier, ...own];
      } else {
        const first = parts.find((part) => has(part.value, here));
        problems.push({
          path: here,
          message: `is given twice, in ${first?.name} and ${from.name}`,
        });
      }
    }
  };
  for (const part of parts) join(value, part, []);
  return {
    kind: "valid",
    value,
    problems: [
      ...parts.flatMap(({ document }) => document.problems),
      ...problems,
    ],
    placeOf: (path) => placeIn(parts, path),
    texts: parts.flatMap(({ document }) => document.texts),
    file,
    warnings,
  };
}

/** Also where the key is `__proto__`, which an assignment would not keep. */
function set(into: Record<string, unknown>, key: string, value: unknown): void {
  Object.defineProperty(into, key, { value, writable: true, enumerable: true, configurable: true });
}

function has(value: unknown, path: ConfigPath): boolean {
  let at = value;
  for (const part of path) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, part)) return false;
    at = (at as Readonly<Record<string | number, unknown>>)[part];
  }
  return true;
}

/** In the last file that has the value, or the nearest value around it. */
function placeIn(parts: readonly DirectoryPart[], path: ConfigPath): ConfigPlace {
  const [list, index, ...rest] = path;
  if (typeof list === "string" && JOINED_LISTS.includes(list) && typeof index === "number") {
    let before = 0;
    for (const { name, document, value } of parts) {
      const items = value[list];
      const length = Array.isArray(items) ? items.length : 0;
      if (index < before + length) {
        return { ...document.placeOf([list, index - before, ...rest]), file: name };
      }
      before += length;
    }
  }
  for (let length = path.length; length > 0; length--) {
    const part = parts.findLast(({ value }) => has(value, path.slice(0, length)));
    if (part) return { ...part.document.placeOf(path), file: part.name };
  }
  return { line: 1, column: 1, ...parts[0] && { file: parts[0].name } };
}

async function namesIn(
  path: string,
): Promise<{ readonly configs: readonly string[]; readonly others: readonly string[] }> {
  const fail = (fact: string, cause?: unknown): never => {
    throw new ProxyError("config_invalid", `Cannot use configuration "${path}": ${fact}`, {
      cause,
    });
  };
  const all = await readdir(path).catch((cause) => fail(factOf(cause), cause));
  // Files of editors, and the links of a volume of Kubernetes.
  const names = all.filter((name) => !name.startsWith(".")).sort();
  const configs = names.filter((name) => CONFIG.test(name));
  if (configs.length === 0) fail("it has no file that ends in .json, .yaml or .yml");
  if (configs.length > FILES_LIMIT) fail(`it has more than ${FILES_LIMIT} files`);
  return { configs, others: names.filter((name) => !CONFIG.test(name)).slice(0, 10) };
}

async function readText(path: string, limitBytes: number): Promise<string> {
  const tooLong = limitBytes === LIMIT_BYTES
    ? `it has more than ${LIMIT_BYTES} bytes`
    : `with the files before it, it has more than ${LIMIT_BYTES} bytes`;
  try {
    await using handle = await open(path, "r");
    const { size } = await handle.stat();
    if (size > limitBytes) throw new Error(tooLong);
    // A device has no size: read no more than the limit of it.
    const buffer = new Uint8Array(size > 0 ? size + 1 : limitBytes + 1);
    let length = 0;
    for (;;) {
      const { bytesRead } = await handle.read(buffer, length, buffer.length - length, null);
      if (bytesRead === 0) break;
      length += bytesRead;
      if (length > limitBytes) throw new Error(tooLong);
      if (length === buffer.length) throw new Error("it changed while it was read");
    }
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    return decoder.decode(buffer.subarray(0, length));
  } catch (cause) {
    // A fault of the file system is no TypeError: only the decoder throws one.
    const fact = cause instanceof TypeError ? "it is not text in UTF-8" : factOf(cause);
    throw new ProxyError("config_invalid", `Cannot use configuration "${path}": ${fact}`, {
      cause,
    });
  }
}

function factOf(cause: unknown): string {
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "";
  return FACTS[code] ?? messageOf(cause);
}

const FACTS: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file",
  EACCES: "permission denied",
};
