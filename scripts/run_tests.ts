/**
 * Runs tests on Deno, Bun or both and counts them: one line per suite, then what failed, what was left
 * for the long run, and `total: N passed, N failed` as the last line. A test that was skipped counts as
 * failed, and so does a suite that ends badly without saying which test it was, or that has no tests.
 *
 *     deno run -A scripts/run_tests.ts [--engine deno|bun|both] [--jobs N] [--timeout SECONDS] PATH...
 *
 * Each story and each directory of other tests is a process of its own, `--jobs` of them at a time,
 * in the order of the paths: name first what takes longest. A few stories run alone, at the end.
 *
 * @module
 */

import { availableParallelism } from "node:os";
import process from "node:process";
import { bundle } from "./tests/bundle.ts";
import { type Failure, showFailure } from "./tests/report.ts";
import {
  type Engine,
  runSuite,
  type Suite,
  type SuiteOutcome,
  suitesOf,
  testFiles,
} from "./tests/suites.ts";

export interface Options {
  readonly engines: readonly Engine[];
  readonly jobs: number;
  /** The limits of one suite. */
  readonly timeoutMs: number;
  readonly paths: readonly string[];
}

export interface Total {
  readonly passed: number;
  readonly failures: readonly Failure[];
}

/** Stories wait for each other's processor more than for their own. */
export const JOBS = 2 * availableParallelism();
/** Modules that touch no runtime: one engine is enough, and Bun is the faster one. */
export const PURE =
  /^(?:src\/(?:base|wire|policy|chain|balance|snapshot)|test\/conformance\/balance)\//;
/**
 * Stories about what a proxy does in a given time, with hundreds of clients, certificates of seconds or
 * connections that are closed a moment after their last request: they run one at a time, after the others,
 * so that no other story takes their processor.
 */
const ALONE: ReadonlySet<string> = new Set([
  "test/interop/http_slow_clients_test.ts",
  "test/consul/rolling_deploy_test.ts",
  "test/consul/troubleshoot_reads_a_proxy_test.ts",
]);
/** The longest suite takes 40 s on 2 quiet cores. */
const DEFAULT_TIMEOUT_MS = 240_000;

/** Runs everything; `beside`: what else takes its turn, before the tests. */
export async function runTests(
  options: Options,
  beside: readonly (() => Promise<void>)[] = [],
): Promise<Total> {
  const files = await testFiles(options.paths);
  const isBoth = options.engines.length > 1;
  const isOnce = (path: string) =>
    isBoth && process.env.POSTERN_LONG === undefined && PURE.test(path);
  const suites = suitesOf(files, (file) => isOnce(file) ? ["bun"] : options.engines);
  const isStory = ({ name }: Suite) => name.endsWith("_test.ts");
  using bundled = suites.some(isStory) ? await bundle() : undefined;
  if (bundled) process.env.POSTERN_BUNDLE = bundled.main;
  const outcomes: SuiteOutcome[] = [];
  const run = async (suite: Suite) => {
    const outcome = await runSuite(suite, options.timeoutMs);
    outcomes.push(outcome);
    show(outcome);
  };
  const together = suites.filter(({ name }) => !ALONE.has(name)).map((suite) => () => run(suite));
  // One iterator for all: each turn is taken once.
  const next = [...beside, ...together].values();
  const work = async () => {
    for (const turn of next) await turn();
  };
  await Promise.all(Array.from({ length: options.jobs }, work));
  for (const suite of suites) if (ALONE.has(suite.name)) await run(suite);
  const failures = outcomes.flatMap(({ suite, failures }) =>
    failures.map(({ name, text }) => ({ name: `${suite.engine} ${suite.name}: ${name}`, text }))
  );
  if (outcomes.length === 0) failures.push({ name: "no test was found", text: "" });
  for (const failure of failures) console.log(showFailure(failure));
  const once = files.filter(isOnce).length;
  showLeft(
    new Set([
      ...outcomes.flatMap(({ left }) => left),
      ...once > 0 ? [`on Deno, ${once} files of tests of what touches no runtime`] : [],
    ]),
  );
  if (isBoth) showUneven(outcomes.filter(({ suite }) => !isOnce(`${suite.name}/`)));
  return { passed: outcomes.reduce((sum, { passed }) => sum + passed.length, 0), failures };
}

function show({ suite, passed, failures, seconds, output }: SuiteOutcome): void {
  if (failures.length > 0) console.log(output);
  console.log(
    `${suite.engine} ${suite.name}: ${passed.length} passed, ${failures.length} failed ` +
      `(${seconds.toFixed(1)} s)`,
  );
}

function showLeft(left: ReadonlySet<string>): void {
  if (left.size === 0) return;
  for (const what of left) console.log(`  left for test:long: ${what}`);
  console.log(`left for test:long: ${left.size}`);
}

/** Tests that one engine has and the other has not are meant to be few. */
function showUneven(outcomes: readonly SuiteOutcome[]): void {
  const on = (engine: Engine) =>
    new Set(
      outcomes.filter(({ suite }) => suite.engine === engine).flatMap(({ suite, ...outcome }) =>
        [...outcome.passed, ...outcome.failures.map(({ name }) => name)]
          // Deno lists the steps of a test as tests.
          .filter((name) => !name.includes(" > "))
          .map((name) => `${suite.name}: ${name}`)
      ),
    );
  const [deno, bun] = [on("deno"), on("bun")];
  const alone = [
    ...[...deno].filter((name) => !bun.has(name)).map((name) => `deno ${name}`),
    ...[...bun].filter((name) => !deno.has(name)).map((name) => `bun ${name}`),
  ];
  for (const name of alone) console.log(`  on one engine alone: ${name}`);
  if (alone.length > 0) console.log(`on one engine alone: ${alone.length}`);
}

export function parseOptions(args: readonly string[]): Options {
  let engines: readonly Engine[] = ["deno"];
  let jobs = JOBS;
  let timeoutMs = DEFAULT_TIMEOUT_MS;
  const paths: string[] = [];
  for (let i = 0; i < args.length; i++) {
    const arg = args[i] ?? "";
    if (!arg.startsWith("--")) {
      paths.push(arg);
      continue;
    }
    const value = args[++i] ?? "";
    if (arg === "--engine" && (value === "deno" || value === "bun")) engines = [value];
    else if (arg === "--engine" && value === "both") engines = ["deno", "bun"];
    else if (arg === "--jobs" && Number(value) >= 1) jobs = Number(value);
    else if (arg === "--timeout" && Number(value) > 0) timeoutMs = Number(value) * 1000;
    else throw new Error(`Cannot run tests: bad option ${arg} ${value}`);
  }
  if (paths.length === 0) throw new Error("Cannot run tests: no path given");
  return { engines, jobs, timeoutMs, paths };
}

/** Prints the line that the runner of all tests reads, and sets the exit code. */
export function finish(passed: number, failed: number): void {
  console.log(`total: ${passed} passed, ${failed} failed`);
  process.exitCode = failed > 0 ? 1 : 0;
}

/** A signal that ends this process ends its children, too. */
export function endOnSignals(): void {
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(130));
}

if (import.meta.main) {
  endOnSignals();
  const { passed, failures } = await runTests(parseOptions(process.argv.slice(2)));
  finish(passed, failures.length);
}
