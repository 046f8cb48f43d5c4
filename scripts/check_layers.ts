/**
 * Enforces the layers of STYLE.md over `src` and `plugins`: the imports that each layer may have, and
 * through which file; the modules that may use sockets and name a runtime; the modules that a data
 * worker loads; that no files import each other; how long a file may get. Exits 1 when something is
 * wrong.
 *
 *     deno run --allow-read scripts/check_layers.ts
 *
 * @module
 */

import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, posix } from "node:path";
import process from "node:process";
import { circles, importGraph, workerProblems } from "./import_graph.ts";
import { blankNonCode, importsOf, lineAt } from "./source_text.ts";

/** A directory of `src` imports only those before it. */
const ORDER = [
  "base",
  "wire",
  "identity",
  "policy",
  "chain",
  "balance",
  "net",
  "http",
  "snapshot",
  // Below consul and secrets: both talk to their servers over gRPC.
  "grpc",
  "consul",
  "xds",
  "secrets",
  "plugin",
  "built_in",
  "source",
  "proxy",
  "kit",
  "events",
  "admin",
  "dev",
  "app",
];

/** A second entrance beside `mod.ts`: a data worker does not load the library that it needs. */
const ENTRANCES = ["src/base/schema.ts", "src/base/error_causes.ts"];

/**
 * Floors of a room, lowest first: a folder or a listed file imports only those before it. Every other file
 * directly in the room is above all its floors. A room that is not listed has none.
 */
const FLOORS: Readonly<Record<string, readonly string[]>> = {
  consul: ["model", "http", "watch", "replies", "servers"],
  dev: [
    "json.ts",
    "refusal.ts",
    "shapes.ts",
    "filter.ts",
    "store.ts",
    "entries",
    "catalog",
    "ca",
    "world.ts",
    "http",
    "routes",
    "demo",
  ],
  proxy: ["trust", "observe", "core", "caller", "upstream", "service", "listen", "explain"],
  source: ["parts", "state", "plugins", "shell", "file", "consul"],
  secrets: ["model", "load", "file", "envoy", "config", "sds", "workload", "on_demand", "store"],
  app: [
    "log",
    "tracing",
    "flags",
    "workers",
    "process",
    "consul_dataplane",
    "commands",
    "command_line",
  ],
};

/** Pure directories: of Node's modules only these, which do no I/O. */
const PURE = ["base", "wire", "identity", "policy", "chain", "balance"];
const PURE_MODULES = ["node:buffer", "node:crypto", "node:util"];

/** Modules that reach the network, and the directories that may use them. */
const NETWORK: Readonly<Record<string, readonly string[]>> = {
  "node:net": ["net"],
  // The CAs that the runtime brings, for an agent's HTTPS where the system has none.
  "node:tls": ["net", "consul"],
  "node:dgram": ["net"],
  "node:http2": ["net"],
  "node:http": ["admin"],
  "node:https": ["admin"],
};

/** Packages, and the rooms of `src` that may import them. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  hono: ["admin", "dev"],
  // `plugin` lends it to plugins from files.
  valibot: ["base", "consul", "secrets", "plugin", "source", "events", "app"],
  // `plugin` lends it to plugins from files.
  jose: ["plugin"],
  re2js: ["base", "admin"],
  yaml: ["wire"],
  // Checks plugins for their authors.
  typescript: ["app"],
};
const PLUGIN_PACKAGES = ["valibot", "jose"];
const RUNTIME_FILES = [
  "src/net/bun/bun_engine.ts",
  "src/net/node/node_engine.ts",
  // The bundler is the runtime's. No worker loads this layer, so none can bundle.
  "src/source/plugins/bun_join.ts",
];
/** The one room that imports `plugins`. */
const BUILT_IN = "built_in";
/** A plugin imports the contract; one inside the executable shares verified claims with the proxy, too. */
const CONTRACT = "src/plugin/api.ts";
const VERIFIED_CLAIMS = "src/plugin/verified_claims.ts";
const NOTICE_LINES = 300;
const LIMIT_LINES = 500;

export interface SourceFile {
  /** From the repository's root, with `/`. */
  readonly path: string;
  readonly text: string;
}

export interface Findings {
  /** `path:line: the problem`. */
  readonly problems: readonly string[];
  readonly notices: readonly string[];
}

export function checkLayers(files: readonly SourceFile[]): Findings {
  const problems: string[] = [];
  const notices: string[] = [];
  for (const file of files) {
    const { path, text } = file;
    const lines = text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
    if (lines > LIMIT_LINES) problems.push(`${path}: ${lines} lines, split it (${LIMIT_LINES})`);
    else if (lines > NOTICE_LINES) notices.push(`${path}: ${lines} lines, look for a second idea`);
    // Tests may import anything.
    if (path.endsWith("_test.ts")) continue;
    const code = blankNonCode(text);
    for (const { specifier, line } of importsOf(text, code)) {
      const problem = whyForbidden(path, specifier);
      if (problem) problems.push(`${path}:${line}: ${problem}`);
    }
    problems.push(...forbiddenNames(path, code));
  }
  const graph = importGraph(files);
  problems.push(...workerProblems(graph));
  for (const circle of circles(graph)) {
    problems.push(`${circle.join(", ")}: import each other; give what they share a file`);
  }
  problems.push(...repeatedTypes(files));
  return { problems, notices };
}

/** The contracts of plugins and of their tests may repeat names of the proxy. */
const CONTRACTS = [
  CONTRACT,
  "src/plugin/host_api.ts",
  "src/plugin/message_api.ts",
  "src/kit/api.ts",
];
const EXPORTED_TYPE = /^export (?:declare )?(?:abstract )?(?:interface|type|class) (\w+)/gm;

/** An exported type has a name of its own, so that a search for it finds one type. */
function repeatedTypes(files: readonly SourceFile[]): string[] {
  const homes = new Map<string, string>();
  const problems: string[] = [];
  for (const { path, text } of files) {
    if (path.endsWith("_test.ts") || CONTRACTS.includes(path)) continue;
    for (const [, name = ""] of text.matchAll(EXPORTED_TYPE)) {
      const home = homes.get(name);
      if (home === undefined) homes.set(name, path);
      else if (home !== path) problems.push(`${path}: type ${name} is exported by ${home}, too`);
    }
  }
  return problems;
}

function whyForbidden(path: string, specifier: string): string | undefined {
  const inSrc = path.startsWith("src/");
  if (!specifier.startsWith(".")) {
    return inSrc ? whyPackage(path, specifier) : whyPluginPackage(path, specifier);
  }
  const imported = posix.join(posix.dirname(path), specifier);
  return inSrc ? whySource(path, imported) : whyPluginSource(path, imported);
}

/** Directory below `src`; `main.ts` counts as the last layer. */
function layerOf(path: string): string {
  const parts = path.split("/");
  return parts.length > 2 ? parts[1] ?? "" : "main";
}

function rankOf(layer: string): number {
  return layer === "main" ? ORDER.length : ORDER.indexOf(layer);
}

function whySource(path: string, imported: string): string | undefined {
  const own = layerOf(path);
  if (rankOf(own) < 0) return `directory "${own}" is not in the list of layers`;
  if (!imported.startsWith("src/")) {
    if (own === BUILT_IN && imported.startsWith("plugins/")) return undefined;
    // The version is written in one place.
    if (imported === "deno.json" && ["app", "main"].includes(own)) return undefined;
    return `"${imported}" is outside src`;
  }
  const other = layerOf(imported);
  if (other === own) return whyFloor(own, path, imported);
  const rank = rankOf(other);
  if (rank < 0) return `directory "${other}" is not in the list of layers`;
  if (rank > rankOf(own)) return `"${own}" may not import "${other}", which comes after it`;
  if (ENTRANCES.includes(imported)) return undefined;
  return imported === `src/${other}/mod.ts` ? undefined : `import "${other}" through its mod.ts`;
}

function whyFloor(room: string, path: string, imported: string): string | undefined {
  const floors = FLOORS[room];
  if (!floors) return undefined;
  const own = floorOf(path, floors);
  const other = floorOf(imported, floors);
  if (own === undefined || own === other) return undefined;
  if (!floors.includes(own)) return `"${own}" is not in the list of floors of "${room}"`;
  if (other === undefined) return `"${room}/${own}" may not import a file above all floors`;
  if (floors.indexOf(other) < floors.indexOf(own)) return undefined;
  return `"${room}/${own}" may not import "${room}/${other}", which comes after it`;
}

/** The folder below the room, or the file where it is a floor itself; `undefined`: above all floors. */
function floorOf(path: string, floors: readonly string[]): string | undefined {
  const [, , name = "", ...rest] = path.split("/");
  return rest.length > 0 || floors.includes(name) ? name : undefined;
}

function whyPackage(path: string, specifier: string): string | undefined {
  const own = layerOf(path);
  if (!specifier.startsWith("node:")) {
    if (specifier.startsWith("bun:") || specifier === "bun") {
      return RUNTIME_FILES.includes(path) ? undefined : `"${specifier}" belongs in net/bun`;
    }
    const names = Object.keys(PACKAGES);
    const name = names.find((candidate) => isPackage(specifier, [candidate]));
    if (name === undefined) return `package "${specifier}" is not one of ${names.join(", ")}`;
    const rooms = PACKAGES[name] ?? [];
    if (rooms.includes(own)) return undefined;
    return `"${own}" may not use ${name}; only ${rooms.join(", ")} may`;
  }
  const allowed = NETWORK[specifier];
  if (allowed && !allowed.includes(own)) {
    return `"${own}" may not use ${specifier}; only ${allowed.join(", ")} may`;
  }
  if (PURE.includes(own) && !PURE_MODULES.includes(specifier)) {
    return `"${own}" is pure and may not use ${specifier}`;
  }
  return undefined;
}

function whyPluginSource(path: string, imported: string): string | undefined {
  const folder = path.split("/").slice(0, 2).join("/");
  if (imported === VERIFIED_CLAIMS && folder !== "plugins/examples") return undefined;
  if (imported === CONTRACT || imported.startsWith(`${folder}/`)) return undefined;
  return `a plugin may import src/plugin/api.ts and its own folder, not "${imported}"`;
}

function whyPluginPackage(path: string, specifier: string): string | undefined {
  if (isPackage(specifier, PLUGIN_PACKAGES)) return undefined;
  // They are as a team would write them, who may allow a plugin more.
  if (path.startsWith("plugins/examples/") && specifier.startsWith("node:")) return undefined;
  return `a plugin may use ${PLUGIN_PACKAGES.join(" and ")}, not "${specifier}"`;
}

function isPackage(specifier: string, packages: readonly string[]): boolean {
  return packages.some((name) => specifier === name || specifier.startsWith(`${name}/`));
}

function forbiddenNames(path: string, code: string): string[] {
  const problems: string[] = [];
  const find = (pattern: RegExp, what: string) => {
    for (const match of code.matchAll(pattern)) {
      problems.push(`${path}:${lineAt(code, match.index)}: ${what}`);
    }
  };
  if (!RUNTIME_FILES.includes(path)) {
    find(/\b(?:Bun|Deno)\b/g, "names a runtime; only net/bun and net/node may");
  }
  if (path.startsWith("plugins/") || !["app", "main"].includes(layerOf(path))) {
    find(/\bconsole\s*\./g, "writes to the console; take a log as an argument");
  }
  if (path.startsWith("src/")) {
    find(/^import\s*["']/gm, "imports nothing: the executable drops it");
  }
  return problems;
}

function readTree(root: string, directory: string): SourceFile[] {
  const absolute = join(root, directory);
  if (!statSync(absolute, { throwIfNoEntry: false })) return [];
  return readdirSync(absolute, { withFileTypes: true })
    .sort((a, b) => a.name < b.name ? -1 : 1)
    .flatMap((entry) => {
      const path = `${directory}/${entry.name}`;
      if (entry.isDirectory()) return readTree(root, path);
      if (!entry.name.endsWith(".ts")) return [];
      return [{ path, text: readFileSync(join(root, path), "utf8") }];
    });
}

if (import.meta.main) {
  const root = join(import.meta.dirname ?? ".", "..");
  const files = ["src", "plugins"].flatMap((directory) => readTree(root, directory));
  const { problems, notices } = checkLayers(files);
  for (const notice of notices) console.log(`notice ${notice}`);
  for (const problem of problems) console.error(problem);
  console.log(`${files.length} files, ${problems.length} problems`);
  process.exitCode = problems.length > 0 || files.length === 0 ? 1 : 0;
}
