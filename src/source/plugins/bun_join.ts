/** Modules joined by Bun's bundler, which is in the executable. @module */

import { relative, resolve } from "node:path";
import process from "node:process";
import type { Join, JoinedModules, ModuleSource } from "./module_join.ts";

interface BuildLog {
  readonly level: string;
  readonly message: string;
  readonly position: {
    readonly file: string;
    readonly line: number;
    readonly column: number;
    readonly lineText: string;
  } | null;
}

interface BuildImport {
  readonly path: string;
  readonly external?: boolean;
}

interface BunBundler {
  build(options: {
    readonly entrypoints: readonly string[];
    readonly format: "cjs";
    readonly target: "bun";
    readonly external: readonly string[];
    readonly throw: false;
    readonly sourcemap: "external";
    readonly metafile: true;
    readonly macros: false;
    readonly plugins: readonly BunPlugin[];
  }): Promise<{
    readonly success: boolean;
    readonly logs: readonly BuildLog[];
    readonly outputs: readonly { text(): Promise<string> }[];
    readonly metafile?: {
      readonly inputs: Readonly<Record<string, { readonly imports: readonly BuildImport[] }>>;
    };
  }>;
}

interface BunPlugin {
  readonly name: string;
  setup(build: {
    onLoad(
      of: { readonly filter: RegExp; readonly namespace: string },
      load: (of: { readonly path: string }) => ReturnType<ModuleSource>,
    ): void;
  }): void;
}

const MAX_FAULTS = 10;

/** `undefined` where this is not Bun. */
export function bunJoin(): Join | undefined {
  const bun = (globalThis as { Bun?: BunBundler }).Bun;
  return bun && ((...asked) => join(bun, ...asked));
}

async function join(
  bun: BunBundler,
  ...[entry, read, lent]: Parameters<Join>
): Promise<JoinedModules> {
  const { success, logs, outputs: [output, map], metafile } = await bun.build({
    entrypoints: [entry],
    format: "cjs",
    target: "bun",
    external: lent,
    throw: false,
    sourcemap: "external",
    metafile: true,
    // Macros would run here, while their digest is still unknown.
    macros: false,
    plugins: [{
      name: "read",
      setup(build) {
        build.onLoad({ filter: /.*/, namespace: "file" }, ({ path }) => read(path));
      },
    }],
  });
  if (!success || !output) throw new Error(faultsOf(logs));
  const inputs = Object.entries(metafile?.inputs ?? {});
  return {
    // The bundler returns a function of these, behind a comment that marks it.
    text: `${(await output.text()).trim()}\n(exports, require, module);`,
    map: await map?.text().then(mapOf) ?? "",
    outside: inputs.flatMap(([path, { imports }]) =>
      imports.filter(({ external }) => external).map(({ path: name }) => ({
        name,
        by: resolve(process.cwd(), path),
      }))
    ),
  };
}

/** With absolute paths, and only the fields that are read. */
function mapOf(json: string): string {
  const { sources, sourcesContent, mappings } = JSON.parse(json) as {
    readonly sources: readonly string[];
    readonly sourcesContent: unknown;
    readonly mappings: unknown;
  };
  const paths = sources.map((source) => resolve(process.cwd(), source));
  return JSON.stringify({ sources: paths, sourcesContent, mappings });
}

function faultsOf(logs: readonly BuildLog[]): string {
  const faults = logs.filter(({ level }) => level === "error");
  return faults.slice(0, MAX_FAULTS).map(({ message, position }) => {
    // There is nothing to install where the plugin runs.
    const fault = message.replace(/ Maybe you need to "bun install"\?$/, "");
    if (!position) return fault;
    const { file, line, column, lineText } = position;
    return `${shown(file)}:${line}:${column}: ${fault}\n      ${lineText.trim()}`;
  }).join("\n    ");
}

function shown(file: string): string {
  const near = relative(process.cwd(), file);
  return near.startsWith("..") ? file : near;
}
