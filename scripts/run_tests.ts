/**
 * Runs tests on Deno, Bun or both and counts them: one line per suite, then `total: N passed, N failed`
 * as the last line. A test that was skipped counts as failed, and so does a suite that ends badly
 * without saying which test it was, or that has no tests at all.
 *
 *     deno run -A scripts/run_tests.ts [--engine deno|bun|both] [--each JOBS] [--timeout SECONDS] PATH...
 *
 * With `--each` every file is a process of its own, `JOBS` of them at a time: for stories that wait
 * more than they compute. Otherwise all paths of one engine are one run.
 *
 * @module
 */

import { spawn } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export type Engine = "deno" | "bun";

export interface Failure {
  readonly name: string;
  /** What the report says of it; empty for a skipped test. */
  readonly text: string;
}

export interface Counts {
  readonly passed: number;
  readonly failed: number;
  /** What failed or was skipped. */
  readonly failures: readonly Failure[];
}

interface Suite {
  readonly engine: Engine;
  readonly name: string;
  readonly files: readonly string[];
}

interface Options {
  readonly engines: readonly Engine[];
  readonly jobs: number | undefined;
  readonly timeoutMs: number;
  readonly paths: readonly string[];
}

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..");
const DENO = "Deno" in globalThis ? process.execPath : "deno";
const BUN = join(ROOT, "node_modules", "bun", "bin", "bun.exe");
/** One engine's whole run takes 8 minutes on 2 quiet cores. */
const DEFAULT_TIMEOUT_MS = 1_800_000;
/** Bun ends a test after 5 s unless told; stories with real agents take longer. */
const BUN_TEST_TIMEOUT_MS = 300_000;

/**
 * Counts of one JUnit report, as Deno and Bun write it. Deno lists a parent test beside its steps;
 * each counts as one, as it does in Deno's own summary.
 */
export function countJunit(xml: string): Counts {
  let passed = 0;
  const failures: Failure[] = [];
  for (const [, attributes = "", body = ""] of xml.matchAll(TEST_CASE)) {
    const name = unescapeXml(attributes.match(/\bname="([^"]*)"/)?.[1] ?? "?");
    const failed = FAILED.exec(body);
    if (/<skipped\b/.test(body)) failures.push({ name: `${name} (skipped)`, text: "" });
    else if (failed) failures.push({ name, text: unescapeXml(failed[1] ?? "").trim() });
    else passed++;
  }
  return { passed, failed: failures.length, failures };
}

/**
 * A failure as it is shown once more below everything else: whoever sees only the end of a long output
 * must not lose the reason. Each line begins with `  |`.
 */
export function showFailure({ name, text }: Failure): string {
  const shown = text.length <= SHOWN_TEXT
    ? text
    : `${text.slice(0, SHOWN_TEXT / 4)}\n...\n${text.slice(-SHOWN_TEXT * 3 / 4)}`;
  const lines = shown === "" ? [] : shown.split("\n");
  return [`  failed: ${name}`, ...lines.map((line) => `  | ${line}`)].join("\n");
}

/** Characters of a failure: the error's words come first, what its process printed comes last. */
const SHOWN_TEXT = 4_000;

/** Text of a failed test case. */
const FAILED = /<(?:failure|error)\b(?:[^>"]|"[^"]*")*?(?:\/>|>([\s\S]*?)<\/(?:failure|error)>)/;

/** Attributes and body of one test case, self-closing or not. */
const TEST_CASE = /<testcase\b((?:[^>"]|"[^"]*")*?)(?:\/>|>([\s\S]*?)<\/testcase>)/g;

async function runSuite(suite: Suite, timeoutMs: number): Promise<Counts> {
  const directory = await mkdtemp(join(tmpdir(), "postern-tests-"));
  const report = join(directory, "junit.xml");
  const started = performance.now();
  try {
    const { code, output } = await runBounded(commandOf(suite, report), timeoutMs);
    const xml = await readFile(report, "utf8").catch(() => "");
    const counts = blame(countJunit(xml), code);
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    if (counts.failed > 0) console.log(output);
    console.log(
      `${suite.engine} ${suite.name}: ${counts.passed} passed, ${counts.failed} failed (${seconds} s)`,
    );
    for (const failure of counts.failures) console.log(showFailure(failure));
    return counts;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** A run that ended badly, or tested nothing, is a failure even when no test case says so. */
function blame(counts: Counts, code: number | string): Counts {
  const fact = counts.failed > 0
    ? undefined
    : code !== 0
    ? `the run ended with ${code}`
    : counts.passed === 0
    ? "no test was run"
    : undefined;
  return fact ? { ...counts, failed: 1, failures: [{ name: fact, text: "" }] } : counts;
}

function commandOf(suite: Suite, report: string): string[] {
  const files = suite.files.map((file) => `./${file}`);
  if (suite.engine === "deno") {
    return [DENO, "test", "-A", "--no-check", `--junit-path=${report}`, ...files];
  }
  return [
    ...[BUN, "test", "--reporter=junit", `--reporter-outfile=${report}`],
    ...[`--timeout=${BUN_TEST_TIMEOUT_MS}`, ...files],
  ];
}

function runBounded(
  command: readonly string[],
  timeoutMs: number,
): Promise<{ readonly code: number | string; readonly output: string }> {
  return new Promise((resolve) => {
    const child = spawn(command[0] ?? "", command.slice(1), {
      cwd: ROOT,
      env: { ...process.env, NO_COLOR: "1" },
      stdio: ["ignore", "pipe", "pipe"],
      // A process group of its own: what a test started ends with it.
      detached: true,
    });
    let output = "";
    let late = false;
    const killGroup = () => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
      } catch {
        // Nothing of the group is left.
      }
    };
    const timer = setTimeout(() => {
      late = true;
      killGroup();
    }, timeoutMs);
    process.on("exit", killGroup);
    const settle = (code: number | string) => {
      clearTimeout(timer);
      process.removeListener("exit", killGroup);
      killGroup();
      resolve({ code: late ? `no end after ${timeoutMs / 1000} s` : code, output });
    };
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => output += chunk);
    child.stderr.setEncoding("utf8").on("data", (chunk: string) => output += chunk);
    child.on("error", (error) => settle(error.message));
    child.on("close", (code, signal) => settle(signal ?? code ?? "no exit code"));
  });
}

/** Every `*_test.ts` under the paths, sorted, relative to the project. */
async function testFiles(paths: readonly string[]): Promise<string[]> {
  const files = await Promise.all(paths.map(async (path) => {
    const full = join(ROOT, path);
    if (!(await stat(full)).isDirectory()) return [path];
    const names = await readdir(full, { recursive: true });
    return names.filter((name) => name.endsWith("_test.ts")).map((name) => join(path, name));
  }));
  return [...new Set(files.flat())].sort();
}

async function runAll(options: Options): Promise<Counts> {
  const files = await testFiles(options.paths);
  const suites: Suite[] = options.engines.flatMap((engine) =>
    options.jobs === undefined
      ? [{ engine, name: options.paths.join(" "), files }]
      : files.map((file) => ({ engine, name: file, files: [file] }))
  );
  const counts: Counts[] = [];
  const next = suites.values();
  const work = async () => {
    // One iterator for all: each suite is taken once.
    for (const suite of next) counts.push(await runSuite(suite, options.timeoutMs));
  };
  await Promise.all(Array.from({ length: options.jobs ?? 1 }, work));
  return {
    passed: counts.reduce((sum, { passed }) => sum + passed, 0),
    failed: counts.length === 0 ? 1 : counts.reduce((sum, { failed }) => sum + failed, 0),
    failures: counts.flatMap(({ failures }) => failures),
  };
}

export function parseOptions(args: readonly string[]): Options {
  let engines: readonly Engine[] = ["deno"];
  let jobs: number | undefined;
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
    else if (arg === "--each" && Number(value) >= 1) jobs = Number(value);
    else if (arg === "--timeout" && Number(value) > 0) timeoutMs = Number(value) * 1000;
    else throw new Error(`Cannot run tests: bad option ${arg} ${value}`);
  }
  if (paths.length === 0) throw new Error("Cannot run tests: no path given");
  return { engines, jobs, timeoutMs, paths };
}

function unescapeXml(text: string): string {
  const named: Readonly<Record<string, string>> = {
    "&lt;": "<",
    "&gt;": ">",
    "&quot;": '"',
    "&apos;": "'",
    "&amp;": "&",
    "&#10;": "\n",
  };
  return text.replace(/&(?:lt|gt|quot|apos|amp|#10);/g, (entity) => named[entity] ?? entity);
}

if (import.meta.main) {
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(130));
  const total = await runAll(parseOptions(process.argv.slice(2)));
  console.log(`total: ${total.passed} passed, ${total.failed} failed`);
  process.exitCode = total.failed > 0 ? 1 : 0;
}
