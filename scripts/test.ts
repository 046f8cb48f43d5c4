/**
 * What a contributor runs before a commit and what the README's test command runs: format, lint, types,
 * layers, then every test that needs nothing but the clone, on Bun and on Deno. Each step runs even
 * when one before it failed; the last line counts, the steps before the tests as one test each.
 *
 *     deno run -A scripts/test.ts
 *
 * @module
 */

import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";

const DENO = process.execPath;

const CHECKS: readonly (readonly [name: string, ...args: string[]])[] = [
  ["format", "fmt", "--check", "--quiet"],
  ["lint", "lint", "--quiet"],
  ["types", "check", "--quiet", ...roots()],
  ["layers", "run", "--allow-read", "scripts/check_layers.ts"],
];

const TESTS = [
  "src",
  "plugins",
  "scripts",
  "test/conformance",
  "test/fuzz",
  "test/integration",
  "test/kit",
];

/** Everything with code in it: a file that nothing imports is checked, too. */
function roots(): string[] {
  return ["src", "plugins", "test", "scripts"].filter(holdsCode);
}

function holdsCode(directory: string): boolean {
  return readdirSync(directory, { recursive: true }).some((name) => String(name).endsWith(".ts"));
}

async function run(
  args: readonly string[],
): Promise<{ readonly ok: boolean; readonly text: string }> {
  const child = spawn(DENO, args, { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  child.stdout.on("data", (chunk: Uint8Array) => {
    process.stdout.write(chunk);
    text += new TextDecoder().decode(chunk);
  });
  const code = await new Promise<number | null>((resolve) => child.on("close", resolve));
  return { ok: code === 0, text };
}

let passed = 0;
let failed = 0;
for (const [name, ...args] of CHECKS) {
  const { ok } = await run(args);
  console.log(`${name}: ${ok ? "ok" : "failed"}`);
  if (ok) passed++;
  else failed++;
}
const tests = await run([
  "run",
  "-A",
  "scripts/run_tests.ts",
  "--engine",
  "both",
  ...TESTS.filter((path) => holdsCode(path)),
]);
const total = /^total: (\d+) passed, (\d+) failed$/m.exec(tests.text);
passed += Number(total?.[1] ?? 0);
failed += Number(total?.[2] ?? 0);
if (!tests.ok && !Number(total?.[2] ?? 0)) failed++;
console.log(`total: ${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
