/** Which tests concern a file: itself, those beside it, and those that import it. @module */

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { ROOT } from "./suites.ts";

/** The files that differ from the main branch, committed or not, and still exist. */
export function changedFiles(): string[] {
  const git = (...args: string[]) =>
    execFileSync("git", ["-C", ROOT, ...args], { encoding: "utf8" }).split("\n").filter(Boolean);
  const [base = "HEAD"] = git("merge-base", "HEAD", "main");
  return [
    ...git("diff", "--name-only", "--relative", base),
    ...git("ls-files", "--others", "--exclude-standard"),
  ].filter((file) => existsSync(join(ROOT, file)));
}

/**
 * The tests among `files`, those that import one of them, and where a source file has neither, those of
 * its directory.
 */
export function testsNear(files: readonly string[], tests: readonly string[]): string[] {
  const changed = files.filter((file) => file.endsWith(".ts")).map((file) => normalize(file));
  const imports = new Map(tests.map((test) => [test, importsOf(test)]));
  const near = new Set<string>();
  for (const file of changed) {
    const direct = tests.filter((test) =>
      test === file || test === file.replace(/\.ts$/, "_test.ts") || imports.get(test)?.has(file)
    );
    const beside = tests.filter((test) => dirname(test) === dirname(file));
    for (const test of direct.length > 0 ? direct : beside) near.add(test);
  }
  return [...near];
}

/** Whether it imports `wanted`, itself or through what tests share. */
export function reaches(file: string, wanted: string, seen = new Set<string>()): boolean {
  if (seen.has(file)) return false;
  seen.add(file);
  return [...importsOf(file)].some((path) =>
    path === wanted || path.startsWith("test/") && reaches(path, wanted, seen)
  );
}

function importsOf(test: string): ReadonlySet<string> {
  const source = readFileSync(join(ROOT, test), "utf8");
  const found = source.matchAll(/\bfrom "(\.[^"]+)"/g);
  return new Set([...found].map(([, path = ""]) => join(dirname(test), path)));
}
