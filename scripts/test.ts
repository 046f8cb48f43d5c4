/**
 * The test command of the README, and of a contributor at work: format, lint, types, layers and tests on
 * Bun and on Deno, all side by side. Each step runs even when another failed; the last line counts, each
 * of the steps that are no tests as one.
 *
 *     deno run -A scripts/test.ts                   everything that needs nothing but the clone
 *     deno run -A scripts/test.ts --long            what it leaves: all rounds, and nothing beside
 *     deno run -A scripts/test.ts --near [FILE...]  what concerns these files, or what differs from main
 *
 * @module
 */

import { availableParallelism } from "node:os";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { endOnSignals, finish, JOBS, PURE, runTests } from "./run_tests.ts";
import { runBounded } from "./tests/bounded.ts";
import { changedFiles, reaches, testsNear } from "./tests/near.ts";
import { type Failure, showFailure } from "./tests/report.ts";
import { DENO, ROOT, testFiles } from "./tests/suites.ts";

type Check = readonly [name: string, ...args: string[]];

const CHECK_TIMEOUT_MS = 600_000;
/** One long story after the other: it measures. Rounds of it take minutes. */
const LONG_TIMEOUT_MS = 1_800_000;

/** The slowest tests come first. */
const TESTS = [
  "test/integration/rotation",
  "test/integration/process",
  "test/integration",
  "src/secrets",
  "src",
  "test/conformance",
  "test/fuzz",
  "plugins",
  "scripts",
  "test/kit",
].filter(holdsTests);

function holdsTests(directory: string): boolean {
  const names = readdirSync(join(ROOT, directory), { recursive: true });
  return names.some((name) => String(name).endsWith("_test.ts"));
}

/** Everything with code in it: a file that nothing imports is checked, too. */
function allChecks(): readonly Check[] {
  const roots = ["src", "plugins", "test", "scripts"].filter((directory) =>
    readdirSync(directory, { recursive: true }).some((name) => String(name).endsWith(".ts"))
  );
  return [
    ["format", "fmt", "--check", "--quiet"],
    ["lint", "lint", "--quiet"],
    ["types", "check", "--quiet", ...roots],
    ["layers", "run", "--allow-read", "scripts/check_layers.ts"],
    ["words", "run", "--allow-read", "scripts/check_words.ts"],
  ];
}

/** Formats what it finds. */
function nearChecks(files: readonly string[]): readonly Check[] {
  const code = files.filter((file) => /\.ts$/.test(file));
  return [
    ["format", "fmt", "--quiet", ...files.filter((file) => /\.(?:ts|md|jsonc?)$/.test(file))],
    ...(code.length === 0 ? [] : [
      ["lint", "lint", "--quiet", ...code] as const,
      ["types", "check", "--quiet", ...code] as const,
    ]),
    ["layers", "run", "--allow-read", "scripts/check_layers.ts"],
    ["words", "run", "--allow-read", "scripts/check_words.ts"],
  ];
}

async function longFiles(): Promise<string[]> {
  return (await testFiles(TESTS)).filter((file) =>
    PURE.test(file) || reaches(file, "test/kit/clock/long.ts")
  );
}

async function run(
  checks: readonly Check[],
  paths: readonly string[],
  options: { readonly jobs: number; readonly timeoutMs: number },
): Promise<void> {
  const failures: Failure[] = [];
  let passed = 0;
  const steps = checks.map(([name, ...args]) => async () => {
    const started = await runBounded([DENO, ...args], { cwd: ROOT, timeoutMs: CHECK_TIMEOUT_MS });
    const ok = started.code === 0;
    console.log(`${name}: ${ok ? "ok" : "failed"} (${started.seconds.toFixed(1)} s)`);
    if (ok) passed++;
    else failures.push({ name, text: started.output });
  });
  const engines = ["deno", "bun"] as const;
  const tests = paths.length > 0
    ? await runTests({ engines, paths, ...options }, steps)
    : await Promise.all(steps.map((step) => step())).then(() => ({ passed: 0, failures: [] }));
  for (const failure of failures) console.log(showFailure(failure));
  finish(passed + tests.passed, failures.length + tests.failures.length);
}

endOnSignals();
const [mode, ...named] = process.argv.slice(2);
if (mode === undefined) await run(allChecks(), TESTS, { jobs: JOBS, timeoutMs: 240_000 });
else if (mode === "--long") {
  process.env.POSTERN_LONG = "1";
  await run([], await longFiles(), { jobs: 1, timeoutMs: LONG_TIMEOUT_MS });
} else if (mode === "--near") {
  const files = named.length > 0 ? named : changedFiles();
  const tests = testsNear(files, await testFiles(TESTS));
  await run(nearChecks(files), tests, { jobs: availableParallelism(), timeoutMs: 120_000 });
} else {
  console.error(`Cannot take "${mode}": want --long or --near [FILE...]`);
  process.exitCode = 2;
}
