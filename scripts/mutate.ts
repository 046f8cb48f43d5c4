/**
 * Breaks a line at a time and looks whether a test notices: 100 mutations drawn from a seed, each in a
 * copy of the tree, against the cheapest tests first: the file's own, those beside it, those of the
 * whole directory, the contracts, the stories within one process. The type check comes last: a mutation
 * that it refuses would never be run. Lists mutations that no test noticed; the last line counts the
 * noticed ones.
 *
 *     deno run -A scripts/mutate.ts [--seed N] [--count N] [PATH...]
 *
 * Fails when fewer than 90 of 100 are noticed. A test that hangs has noticed, too.
 *
 * @module
 */

import { execFileSync } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { seededRandom } from "../src/base/mod.ts";
import { endOnSignals } from "./run_tests.ts";
import { runBounded } from "./tests/bounded.ts";
import { draw, type Mutation, mutationsOf } from "./tests/mutations.ts";
import { BUN, DENO, ROOT, testFiles } from "./tests/suites.ts";

const DIRECTORIES = ["policy", "identity", "proxy", "net", "balance", "snapshot"].map((name) =>
  `src/${name}`
);
const CONTRACTS: Readonly<Record<string, readonly string[]>> = {
  "src/net": ["test/conformance/net"],
  "src/balance": ["test/conformance/balance"],
  "src/consul": ["test/conformance/agent", "test/conformance/servers", "src/source"],
  "src/grpc": ["src/consul/servers", "test/conformance/servers"],
};
/** Modules that no data worker loads are in no story within one process. */
const WITHOUT_STORIES = ["src/consul", "src/grpc", "src/app"];
const WANTED_SHARE = 0.9;
const STAGE_TIMEOUT_MS = 600_000;
/** A stage that takes so many times its unbroken time hangs. */
const HANGS_AFTER = 3;
const HANGS_AFTER_AT_LEAST_MS = 20_000;

/** A command over test files; by name, with how long it takes where nothing is broken. */
interface Stage {
  readonly name: string;
  readonly command: readonly string[];
  /** It only reads what is broken, and so it is slow at worst. */
  readonly neverHangs?: true;
}

function filesOf(paths: readonly string[]): string[] {
  const args = ["-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"];
  return execFileSync("git", [...args, ...paths], { encoding: "utf8" }).split("\n").filter(Boolean);
}

/** Copies the work tree; the packages are shared. */
function copyTree(): string {
  const tree = mkdtempSync(join(tmpdir(), "postern-mutate-"));
  for (const file of filesOf([])) {
    mkdirSync(join(tree, dirname(file)), { recursive: true });
    cpSync(join(ROOT, file), join(tree, file));
  }
  symlinkSync(join(ROOT, "node_modules"), join(tree, "node_modules"));
  return tree;
}

/** Stories that start no process: as cheap as units, and whole. */
async function storiesWithin(): Promise<string[]> {
  const stories = (await testFiles(["test/integration"])).filter((file) =>
    dirname(file) === "test/integration"
  );
  const starts = /kit\/\w+\/(?:postern|dev_mesh|process|sidecar|postern_tls|ingress)\w*\.ts"/;
  // A story that uses that module only to wait starts nothing.
  const waits = /^import \{ eventually \} .*$/m;
  return stories.filter((file) =>
    !starts.test(readFileSync(join(ROOT, file), "utf8").replace(waits, ""))
  );
}

interface Tests {
  /** Files beside those that they test. */
  readonly units: readonly string[];
  readonly stories: readonly string[];
}

function stagesFor(file: string, { units, stories }: Tests): Stage[] {
  const directory = file.split("/").slice(0, 2).join("/");
  const beside = dirname(file);
  const own = file.replace(/\.ts$/, "_test.ts");
  const near = [own, ...(beside === directory ? [] : [beside])].filter((path) =>
    units.some((test) => test === path || test.startsWith(`${path}/`))
  );
  // Modules that only Deno loads are tested there.
  const command = file.startsWith("src/net/node/")
    ? [DENO, "test", "-A", "--no-check", "--fail-fast"]
    : [BUN, "test", "--bail", "--timeout=60000"];
  const engine = command[0] === DENO ? "deno" : "bun";
  const stage = (name: string, paths: readonly string[]): Stage => ({
    name: `${engine} ${name}`,
    command: [...command, ...paths.map((path) => `./${path}`)],
  });
  return [
    ...near.map((path) => stage(path, [path])),
    stage(directory, [directory]),
    ...(CONTRACTS[directory] ?? []).map((contract) => stage(contract, [contract])),
    ...(WITHOUT_STORIES.includes(directory) ? [] : [stage("stories", stories)]),
    { name: "types", command: [DENO, "check", "--quiet", file], neverHangs: true },
  ];
}

async function measure(stages: readonly Stage[], tree: string): Promise<Map<string, number>> {
  const limits = new Map<string, number>();
  for (const { name, command, neverHangs } of stages) {
    if (limits.has(name)) continue;
    const { code, output, seconds } = await runBounded(command, {
      cwd: tree,
      timeoutMs: STAGE_TIMEOUT_MS,
    });
    if (code !== 0) throw new Error(`Cannot begin: ${name} fails unbroken: ${code}\n${output}`);
    console.log(`${name} takes ${seconds.toFixed(1)} s`);
    const hangsAfterMs = Math.max(HANGS_AFTER_AT_LEAST_MS, seconds * 1_000 * HANGS_AFTER);
    limits.set(name, neverHangs ? STAGE_TIMEOUT_MS : hangsAfterMs);
  }
  return limits;
}

/** Name of the stage that noticed. */
async function noticed(
  mutation: Mutation,
  { tree, stages, limits }: {
    readonly tree: string;
    readonly stages: readonly Stage[];
    readonly limits: ReadonlyMap<string, number>;
  },
): Promise<string | undefined> {
  const path = join(tree, mutation.file);
  const source = readFileSync(path, "utf8");
  const lines = source.split("\n");
  lines[mutation.line - 1] = mutation.after;
  writeFileSync(path, lines.join("\n"));
  try {
    for (const { name, command } of stages) {
      const timeoutMs = limits.get(name) ?? STAGE_TIMEOUT_MS;
      const { code } = await runBounded(command, { cwd: tree, timeoutMs });
      if (code !== 0) return name;
    }
    return undefined;
  } finally {
    writeFileSync(path, source);
  }
}

function readArguments(args: readonly string[]): { seed: number; count: number; paths: string[] } {
  const read = { seed: 1, count: 100, paths: [] as string[] };
  for (let i = 0; i < args.length; i++) {
    const arg = args[i] ?? "";
    if (arg === "--seed") read.seed = Number(args[++i]);
    else if (arg === "--count") read.count = Number(args[++i]);
    else if (arg.startsWith("-")) throw new Error(`Cannot take "${arg}": want --seed or --count`);
    else read.paths.push(arg);
  }
  return read;
}

endOnSignals();
const { seed, count, paths } = readArguments(process.argv.slice(2));
const sources = filesOf(paths.length > 0 ? paths : DIRECTORIES).filter((file) =>
  file.endsWith(".ts") && !/(?:_test|\/mod|\/types|_types)\.ts$/.test(file)
);
const all = sources.flatMap((file) => mutationsOf(file, readFileSync(join(ROOT, file), "utf8")));
const drawn = draw(all, count, seededRandom(seed));
console.log(`${drawn.length} of ${all.length} mutations, seed ${seed}`);
const tests = { units: await testFiles(["src"]), stories: await storiesWithin() };
const trees = Array.from({ length: availableParallelism() }, copyTree);
const survivors: Mutation[] = [];
try {
  const [first = ""] = trees;
  const limits = await measure(drawn.flatMap(({ file }) => stagesFor(file, tests)), first);
  const next = drawn.values();
  await Promise.all(trees.map(async (tree) => {
    for (const mutation of next) {
      const stages = stagesFor(mutation.file, tests);
      const by = await noticed(mutation, { tree, stages, limits });
      const { file, line, before, after } = mutation;
      const change = `${file}:${line}: ${before.trim()}  ->  ${after.trim()}`;
      console.log(`${by === undefined ? "NOT NOTICED" : `noticed by ${by}`}  ${change}`);
      if (by === undefined) survivors.push(mutation);
    }
  }));
} finally {
  for (const tree of trees) rmSync(tree, { recursive: true, force: true });
}
for (const { file, line, before, after } of survivors) {
  console.log(`  not noticed: ${file}:${line}: ${before.trim()}  ->  ${after.trim()}`);
}
const seen = drawn.length - survivors.length;
console.log(`${seen} of ${drawn.length} noticed`);
process.exitCode = seen >= WANTED_SHARE * drawn.length ? 0 : 1;
