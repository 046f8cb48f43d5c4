/**
 * Which test files there are, which of them share a process, and the process that runs them on an
 * engine.
 *
 * @module
 */

import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { runBounded } from "./bounded.ts";
import { type Counts, leftForLong, readJunit, skips, unfinished } from "./report.ts";

export type Engine = "deno" | "bun";

export interface Suite {
  readonly engine: Engine;
  readonly name: string;
  readonly files: readonly string[];
}

export const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
export const DENO = "Deno" in globalThis ? process.execPath : "deno";
export const BUN = join(ROOT, "node_modules", "bun", "bin", "bun.exe");

/** Stories wait more than they compute: each is a process of its own, beside others. */
const STORIES = /^test\/(?:consul|differential|faults|integration|interop|service)\//;

/** Every `*_test.ts` under the paths, once, in the order of the paths, relative to the project. */
export async function testFiles(paths: readonly string[]): Promise<string[]> {
  const files = await Promise.all(paths.map(async (path) => {
    const full = join(ROOT, path);
    if (!(await stat(full)).isDirectory()) return [path];
    const names = await readdir(full, { recursive: true });
    return names.filter((name) => name.endsWith("_test.ts")).map((name) => join(path, name)).sort();
  }));
  return [...new Set(files.flat().map((file) => file.replace(/^\.\//, "")))];
}

/**
 * One suite for each story and for each directory of other tests, on each of the engines that
 * `enginesOf` names for a file; in the order of the files.
 */
export function suitesOf(
  files: readonly string[],
  enginesOf: (file: string) => readonly Engine[],
): Suite[] {
  const groups = Map.groupBy(
    files.flatMap((file) => enginesOf(file).map((engine) => ({ file, engine }))),
    ({ file, engine }) => `${engine} ${STORIES.test(file) ? file : dirname(file)}`,
  );
  return [...groups].map(([key, members]) => {
    const [engine = "deno", name = ""] = key.split(" ", 2) as [Engine, string];
    return { engine, name, files: members.map(({ file }) => file) };
  });
}

const DENO_FELL = "find_stream_on_goaway_func";

export interface SuiteOutcome extends Counts {
  readonly suite: Suite;
  readonly seconds: number;
  readonly output: string;
}

export async function runSuite(suite: Suite, timeoutMs: number): Promise<SuiteOutcome> {
  const directory = await mkdtemp(join(tmpdir(), "postern-tests-"));
  const report = join(directory, "junit.xml");
  try {
    const command = await commandOf(suite, directory, report, timeoutMs);
    const options = { cwd: ROOT, timeoutMs };
    let run = await runBounded(command, options);
    // A fault of Deno's own HTTP/2, which plays peers in tests: it falls over some GOAWAYs, now and then.
    if (run.output.includes(DENO_FELL)) run = await runBounded(command, options);
    const { code, output, seconds } = run;
    const { passed, failures } = readJunit(await readFile(report, "utf8").catch(() => ""));
    const left = leftForLong(output);
    const fault = failures.length > 0
      ? undefined
      : code !== 0
      ? `the run ended with ${code}${stuckIn(output)}`
      : passed.length === 0
      ? "no test was run"
      : undefined;
    const skipped = (await Promise.all(suite.files.map(async (file) =>
      skips(await readFile(join(ROOT, file), "utf8")).map((at) =>
        `${file}, ${at} (may skip)`
      )
    ))).flat();
    return {
      suite,
      seconds,
      output,
      passed,
      failures: [
        ...failures,
        ...[...(fault ? [fault] : []), ...skipped].map((name) => ({ name, text: "" })),
      ],
      left,
    };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function stuckIn(output: string): string {
  const name = unfinished(output);
  return name === undefined ? "" : ` within "${name}"`;
}

async function commandOf(
  suite: Suite,
  directory: string,
  report: string,
  timeoutMs: number,
): Promise<string[]> {
  const files = suite.files.map((file) => `./${file}`);
  if (suite.engine === "deno") {
    // Deno loads everything anew for each file that it is given, which is a third of the time.
    const all = join(directory, "all_test.ts");
    const urls = files.map((file) => pathToFileURL(join(ROOT, file)).href);
    await writeFile(all, urls.map((url) => `import ${JSON.stringify(url)};\n`).join(""));
    return [DENO, "test", "-A", "--no-check", `--junit-path=${report}`, all];
  }
  return [
    ...[BUN, "test", "--reporter=junit", `--reporter-outfile=${report}`],
    // Sooner than the suite's end: Bun then names the test that hangs, and goes on.
    ...[`--timeout=${Math.round(timeoutMs * 0.8)}`, ...files],
  ];
}
