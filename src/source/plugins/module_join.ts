/**
 * Modules joined without a bundler, for runtimes that have none and run TypeScript themselves: the text
 * imports each module from memory, after those that it imports. What is imported so is never freed, a
 * fault in a module's text is found where it is run, and modules cannot import each other in a circle.
 *
 * @module
 */

import { dirname, resolve } from "node:path";

/** Imports of a module that are not bundled. */
export interface OutsideImport {
  readonly name: string;
  /** Path of the module. */
  readonly by: string;
}

export interface JoinedModules {
  readonly text: string;
  /** From the text back to the sources, as `PluginCodePart.map` has it. */
  readonly map: string;
  readonly outside: readonly OutsideImport[];
}

/** A module's source, which `read` gives by its path, with what it is written in. */
export type ModuleSource = (path: string) => Promise<{
  readonly contents: string;
  readonly loader: Loader;
}>;

/**
 * Modules named in `lent` are left outside. Rejects with every fault that it finds: file, line, column, what
 * is wrong, and the line's text.
 */
export type Join = (
  entry: string,
  read: ModuleSource,
  lent: readonly string[],
) => Promise<JoinedModules>;

export type Loader = "ts" | "tsx" | "js" | "jsx" | "json";

/** A text, the place of a module that came before, or the name of something outside. */
type Piece = string | number | { readonly outside: string };

interface Module {
  readonly path: string;
  readonly type: string;
  readonly pieces: readonly Piece[];
}

/** The text before a module's name, its quotation mark, and the name. Imports of types load nothing. */
const IMPORT =
  /(\b(?:import|export)\b(?!\s+type\b)[^"'`;]*?\bfrom\s*|\bimport\s*\(?\s*)(["'])([^"'\n]+)\2/;
/** In these the word `import` means nothing. */
const COMMENT = /\/\*[^]*?\*\/|\/\/.*/;
const STRING = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\[^])*`/;
const PARTS = new RegExp([COMMENT, IMPORT, STRING].map(({ source }) => source).join("|"), "g");

export async function moduleJoin(entry: string, read: ModuleSource): Promise<JoinedModules> {
  const modules: Module[] = [];
  const sourcesContent: string[] = [];
  const outside: OutsideImport[] = [];
  const open = new Set<string>();
  const visit = async (path: string): Promise<number> => {
    const known = modules.findIndex((module) => module.path === path);
    if (known >= 0) return known;
    if (open.has(path)) throw new Error(`${path} is imported by what it imports`);
    open.add(path);
    const { contents, loader } = await read(path);
    const pieces: Piece[] = [];
    let end = 0;
    for (const match of contents.matchAll(PARTS)) {
      const [whole, before, , name = ""] = match;
      if (before === undefined) continue;
      pieces.push(contents.slice(end, match.index), before, '"');
      end = match.index + whole.length;
      if (/^\.{0,2}\//.test(name)) pieces.push(await visit(resolve(dirname(path), name)), '"');
      else {
        outside.push({ name, by: path });
        pieces.push({ outside: name }, '"');
      }
    }
    pieces.push(contents.slice(end));
    const type = loader.startsWith("ts") ? "application/typescript" : "text/javascript";
    sourcesContent.push(contents);
    return modules.push({ path, type, pieces }) - 1;
  };
  await visit(entry);
  return {
    text: `(${importFromMemory})(${JSON.stringify(modules)}, module, require);`,
    map: JSON.stringify({ sources: modules.map(({ path }) => path), sourcesContent, mappings: "" }),
    outside,
  };
}

/** Its source is the text: it may use nothing of this module. */
function importFromMemory(
  modules: readonly Module[],
  module: { exports: unknown; urls?: readonly string[] },
  require: (name: string) => Record<string, unknown>,
): void {
  const urls: string[] = [];
  const lent: string[] = [];
  const held = globalThis as Record<string, unknown>;
  const urlOf = (content: readonly string[], type: string) =>
    URL.createObjectURL(new Blob([...content], { type }));
  const outside = (name: string): string => {
    const key = `plugin ${crypto.randomUUID()}`;
    held[key] = require(name);
    const names = Object.keys(require(name)).filter((own) => own !== "default");
    const lines = names.map((own, index) =>
      `const e${index} = m[${JSON.stringify(own)}]; export { e${index} as ${own} };`
    );
    const first = `const m = globalThis[${JSON.stringify(key)}]; export default m.default ?? m;`;
    const url = urlOf([first, ...lines], "text/javascript");
    lent.push(key, url);
    return url;
  };
  for (const { type, pieces } of modules) {
    const content = pieces.map((piece) => {
      if (typeof piece === "number") return urls[piece] ?? "";
      return typeof piece === "string" ? piece : outside(piece.outside);
    });
    urls.push(urlOf(content, type));
  }
  module.urls = urls;
  module.exports = import(urls.at(-1) ?? "").catch((error) => {
    let message = String(error?.message ?? error);
    for (const [index, { path }] of modules.entries()) {
      message = message.replaceAll(urls[index] ?? "", path);
    }
    throw Object.assign(new Error(message), { stack: error?.stack });
  }).finally(() => {
    for (const url of urls) URL.revokeObjectURL(url);
    for (const key of lent) delete held[key];
  });
}
