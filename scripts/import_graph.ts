/**
 * Problems that only the whole of the imports shows: modules that a data worker must not load, and files
 * that import each other.
 *
 * @module
 */

import { posix } from "node:path";
import { importsOf } from "./source_text.ts";

const WORKER = "src/app/workers/worker.ts";
/** The layers that a worker has no use for: it gets snapshots, and does not fetch facts itself. */
const MAIN_THREAD = ["grpc", "consul", "xds", "secrets", "source", "kit", "admin", "dev"];
/** Loaded by a worker once they are needed, and only then. */
const LOADED_WHEN_NEEDED = ["re2js", "valibot", "jose", "yaml", "plugins"];

export interface Node {
  readonly path: string;
  readonly text: string;
}

interface Edge {
  readonly from: string;
  readonly to: string;
  readonly line: number;
  readonly kind: "value" | "type" | "dynamic";
}

type ImportGraph = ReadonlyMap<string, readonly Edge[]>;

/** The imports of source files, tests left out. */
export function importGraph(files: readonly Node[]): ImportGraph {
  return new Map(
    files.filter(({ path }) => !path.endsWith("_test.ts")).map(({ path, text }) => [
      path,
      importsOf(text).map(({ specifier, line, kind }) => {
        const isFile = specifier.startsWith(".");
        const to = isFile ? posix.join(posix.dirname(path), specifier) : specifier;
        return { from: path, to, line, kind };
      }),
    ]),
  );
}

/** The modules that a data worker would load and must not, each with the chain of imports. */
export function workerProblems(graph: ImportGraph): string[] {
  const problems: string[] = [];
  const via = new Map<string, string>([[WORKER, "worker.ts"]]);
  // A map visits entries that are added meanwhile.
  for (const [path, way] of via) {
    for (const { from, to, line, kind } of graph.get(path) ?? []) {
      if (kind === "type" || via.has(to)) continue;
      const isLate = kind === "dynamic" && LOADED_WHEN_NEEDED.includes(to.split("/")[0] ?? "");
      if (to.startsWith("node:") || isLate) continue;
      const layer = to.split("/")[1] ?? "";
      if (to.startsWith("src/") && !MAIN_THREAD.includes(layer)) {
        via.set(to, `${way} > ${to.slice("src/".length)}`);
        continue;
      }
      problems.push(`${from}:${line}: a data worker would load "${to}" (${way})`);
    }
  }
  return problems;
}

/** Files that import each other, by whatever way: none can be read before the other. */
export function circles(graph: ImportGraph): string[][] {
  const found: string[][] = [];
  const order = new Map<string, number>();
  const open: string[] = [];
  // Tarjan's: a file from which nothing earlier can be reached closes a circle of the open files after
  // it.
  const visit = (path: string): number => {
    const own = order.size;
    order.set(path, own);
    open.push(path);
    let first = own;
    for (const { to } of graph.get(path) ?? []) {
      if (!graph.has(to)) continue;
      const seen = order.get(to);
      if (seen === undefined) first = Math.min(first, visit(to));
      else if (open.includes(to)) first = Math.min(first, seen);
    }
    if (first === own) {
      const circle = open.splice(open.indexOf(path));
      if (circle.length > 1) found.push(circle.sort());
    }
    return first;
  };
  for (const path of graph.keys()) if (!order.has(path)) visit(path);
  return found;
}
