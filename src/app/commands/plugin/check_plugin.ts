/** `postern plugin check`: checks a plugin as a proxy would, and its types. @module */

import { existsSync, readFileSync, statSync } from "node:fs";
import { extname, resolve } from "node:path";
import { messageOf, systemClock } from "../../../base/mod.ts";
import {
  faultOf,
  loadCode,
  loadWithin,
  type PluginDefinition,
  whyNoImport,
} from "../../../plugin/mod.ts";
import { bundle, BUNDLE_EXTENSION, type Bundled } from "../../../source/mod.ts";
import { isTestFile, nodeName, shown, testsBeside, type Write } from "./plugin_files.ts";
import process from "node:process";
import type { CompilerHost, Diagnostic, SourceFile } from "typescript";
import { COMPILER_OPTIONS } from "./new_plugin.ts";
import { LANGUAGE, type TypeFiles, typeFiles, TYPES_OF } from "./type_files.ts";

const MAX_FAULTS = 30;

/** Checks contract and types of plugins, and the types of the tests beside them; returns the exit code. */
export async function checkPlugins(paths: readonly string[], write: Write): Promise<number> {
  const files = [...new Set(paths.map((path) => resolve(path)))];
  const existing = files.filter((file) => existsSync(file));
  const tests = await Promise.all(existing.map(testsBeside));
  // One program for all files: the types of the language take most of the time.
  const typed = existing.filter((file) => extname(file) !== BUNDLE_EXTENSION);
  const types = typed.length > 0 ? await checkTypes([...typed, ...tests.flat()]) : [];
  const checked = [];
  for (const file of files.filter((file) => !isTestFile(file))) {
    const isReported = existing.includes(file) && types.length > 0;
    // A file that cannot be parsed has no types, and cannot run.
    if (!types.some(({ isSyntax }) => isSyntax)) {
      checked.push({ file, result: await loadPlugin(file, isReported) });
    }
  }
  const faults = [
    ...types.map(faultText),
    ...checked.flatMap(({ result }) => "faults" in result ? result.faults : []),
  ];
  for (const text of faults.slice(0, MAX_FAULTS)) write(`${text}\n`);
  if (faults.length > MAX_FAULTS) write(`... and ${faults.length - MAX_FAULTS} more\n`);
  if (faults.length > 0) {
    write(`\n${faults.length} ${faults.length === 1 ? "fault" : "faults"}\n`);
    return 1;
  }
  for (const file of files.filter(isTestFile)) write(`${shown(file)}: ok\n`);
  for (const { file, result } of checked) {
    if ("plugin" in result) write(aboutText(file, result));
  }
  return 0;
}

/** Faults, or the plugin. `isReported`: faults of types include that of bundling. */
export async function loadPlugin(path: string, isReported = false): Promise<
  { readonly faults: readonly string[] } | LoadedPlugin
> {
  let code: Bundled;
  try {
    code = await bundle(path);
  } catch (error) {
    return { faults: isReported ? [] : [messageOf(error)] };
  }
  const names = [...new Set(code.outside.map(({ name }) => name))].sort();
  const mayBeAllowed = (name: string) =>
    whyNoImport(name, []) !== undefined && whyNoImport(name, [nodeName(name)]) === undefined;
  const allow = [...new Set(names.filter(mayBeAllowed).map(nodeName))];
  const refused = code.outside.flatMap(({ name, by }) => {
    const why = whyNoImport(name, allow);
    return why ? [`${shown(by)} ${why}`] : [];
  });
  if (refused.length > 0) return { faults: [...new Set(refused)] };
  try {
    const plugin = await loadWithin(loadCode({ ...code, path }, allow), systemClock);
    return { plugin, allow, code };
  } catch (error) {
    return { faults: [`${shown(path)}: ${faultOf(error)}`] };
  }
}

/** A plugin that fulfils the contract, and the modules of Node.js that it needs. */
interface LoadedPlugin {
  readonly plugin: Pick<PluginDefinition, "name" | "api" | "phase">;
  readonly allow: readonly string[];
  readonly code: Bundled;
}

function aboutText(path: string, { plugin: { name, phase }, allow, code }: LoadedPlugin): string {
  const needs = allow.map((name) => JSON.stringify(name)).join(", ");
  return `${shown(path)}: ok
    plugin ${name}, phase ${phase}
${
    needs && `    what it imports needs "allow": [${needs}] beside its "use"\n`
  }    "sha256": "${code.digest}" pins it as it is (the bundle has a digest of its own)
`;
}

function faultText({ path, line, column, message, lines }: TypeFault): string {
  const at = path === undefined ? "" : `${shown(path)}:${line}:${column}: `;
  const head = `${at}${message.replaceAll("\n", "\n  ")}`;
  return [head, ...lines.map((text) => `    ${text}`)].join("\n");
}

/** Loaded here and nowhere else: it is 9 MB of source, and 100 MB in memory while it works. */
type TypeScript = typeof import("typescript");

interface TypeFault {
  /** `undefined`: the fault concerns no file. */
  readonly path: string | undefined;
  /** Counted from 1. */
  readonly line: number;
  readonly column: number;
  /** The file cannot be parsed. */
  readonly isSyntax: boolean;
  /** May have several lines. */
  readonly message: string;
  /** The line, and below it a mark under the place. */
  readonly lines: readonly string[];
}

/** The compiler's path of the types; it is on no disk. */
const ROOT = "/postern-plugin-types";

/** Faults of the files at these absolute paths and of the files that they import. */
async function checkTypes(files: readonly string[]): Promise<readonly TypeFault[]> {
  const { default: ts } = await import("typescript");
  const types = await typeFiles();
  const { options } = ts.convertCompilerOptionsFromJson(COMPILER_OPTIONS, "/");
  const program = ts.createProgram({
    rootNames: [...files, `${ROOT}/node.d.ts`],
    options,
    host: hostOf(ts, types),
  });
  const isOwn = ({ fileName }: SourceFile) =>
    !fileName.startsWith(`${ROOT}/`) && !fileName.includes("/node_modules/");
  const own = program.getSourceFiles().filter(isOwn);
  const syntax = own.flatMap((file) => program.getSyntacticDiagnostics(file));
  const found = syntax.length > 0 ? syntax : [
    ...program.getOptionsDiagnostics(),
    ...own.flatMap((file) => program.getSemanticDiagnostics(file)),
  ];
  const isSyntax = syntax.length > 0;
  return ts.sortAndDeduplicateDiagnostics(found).map((one) => ({
    ...typeFault(ts, one),
    isSyntax,
  }));
}

function hostOf(ts: TypeScript, types: TypeFiles): CompilerHost {
  const provided = (path: string) =>
    path.startsWith(`${ROOT}/`) ? types[path.slice(ROOT.length + 1)] : undefined;
  const readFile = (path: string) =>
    provided(path) ?? (isFile(path) ? readFileSync(path, "utf8") : undefined);
  const host: CompilerHost = {
    fileExists: (path) => provided(path) !== undefined || isFile(path),
    directoryExists: (path) => path.startsWith(ROOT) || existsSync(path),
    readFile,
    getSourceFile: (path, languageVersion) => {
      const text = readFile(path);
      return text === undefined ? undefined : ts.createSourceFile(path, text, languageVersion);
    },
    getDefaultLibFileName: () => `${ROOT}/${LANGUAGE}lib.esnext.d.ts`,
    getDefaultLibLocation: () => `${ROOT}/${LANGUAGE}`,
    getCurrentDirectory: () => process.cwd(),
    getCanonicalFileName: (path) => path,
    useCaseSensitiveFileNames: () => true,
    getNewLine: () => "\n",
    writeFile: () => {},
    resolveModuleNameLiterals: (literals, containing, redirected, options) =>
      literals.map(({ text }) => {
        const typesFile = Object.hasOwn(TYPES_OF, text) && TYPES_OF[text as keyof typeof TYPES_OF];
        if (!typesFile) {
          return ts.resolveModuleName(text, containing, options, host, undefined, redirected);
        }
        const resolvedFileName = `${ROOT}/${typesFile}`;
        return { resolvedModule: { resolvedFileName, extension: ts.Extension.Dts } };
      }),
  };
  return host;
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

function typeFault(ts: TypeScript, { file, start, length, messageText }: Diagnostic) {
  const message = ts.flattenDiagnosticMessageText(messageText, "\n");
  if (!file || start === undefined) {
    return { path: undefined, line: 0, column: 0, message, lines: [] };
  }
  const { line, character } = file.getLineAndCharacterOfPosition(start);
  const text = file.text.split("\n")[line] ?? "";
  const indent = text.length - text.trimStart().length;
  const marked = Math.max(1, Math.min(length ?? 1, text.trimEnd().length - character));
  return {
    path: file.fileName,
    line: line + 1,
    column: character + 1,
    message,
    lines: [text.trim(), " ".repeat(Math.max(0, character - indent)) + "~".repeat(marked)],
  };
}
