/**
 * Checks the types of a plugin with TypeScript's compiler, which has no other types than those that the
 * executable provides and those in the plugin's own files.
 *
 * @module
 */

import { existsSync, readFileSync, statSync } from "node:fs";
import process from "node:process";
import type { CompilerHost, Diagnostic, SourceFile } from "typescript";
import { COMPILER_OPTIONS } from "./templates.ts";
import { LANGUAGE, type TypeFiles, typeFiles, TYPES_OF } from "./type_files.ts";

/** Loaded here and nowhere else: it is 9 MB of source, and 100 MB in memory while it works. */
type TypeScript = typeof import("typescript");

export interface TypeFault {
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
export async function checkTypes(files: readonly string[]): Promise<readonly TypeFault[]> {
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
  return ts.sortAndDeduplicateDiagnostics(found).map((one) => ({ ...faultOf(ts, one), isSyntax }));
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

function faultOf(ts: TypeScript, { file, start, length, messageText }: Diagnostic) {
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
