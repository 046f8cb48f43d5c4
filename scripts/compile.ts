/**
 * Makes the executables.
 *
 *     deno task compile                      dist/postern, on Bun, for this machine
 *     deno task compile --target linux-arm64 dist/postern-linux-arm64; may be repeated
 *     deno task compile:deno                 dist/postern-deno, on Deno
 *
 * `--into DIR` writes elsewhere than into `dist`.
 *
 * Ends with 0, with 1 when the compiler failed, with 2 for wrong usage, and with 3 when Deno's base
 * binary (denort) could not be had: it is downloaded from dl.deno.land; where that is out of reach, put
 * the one of this Deno version into a file and name it in `DENORT_BIN`.
 *
 * @module
 */

import { execFileSync, spawnSync } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { PACKED_NAME, packedTypes } from "../src/app/commands/plugin/type_files.ts";
import { cacheDirectory } from "./cache.ts";
import { deafened, firstHeeded } from "./runtime_variables.ts";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..");
const BUN = join(ROOT, "node_modules", "bun", "bin", "bun.exe");
const MAIN = join("src", "main.ts");
/** Workers are programs of their own: a worker file that is no entry point is not in the executable. */
const WORKER = join("src", "app", "workers", "worker.ts");

const TARGETS = [
  "linux-x64",
  "linux-x64-musl",
  "linux-arm64",
  "linux-arm64-musl",
  "darwin-x64",
  "darwin-arm64",
];
const NO_BASE_BINARY = 3;

interface Request {
  readonly engine: "bun" | "deno";
  /** Empty: this machine. */
  readonly targets: readonly string[];
  readonly directory: string;
}

function readArguments(argv: readonly string[]): Request | string {
  let engine: Request["engine"] = "bun";
  const targets: string[] = [];
  let directory = join(ROOT, "dist");
  for (let index = 0; index < argv.length; index++) {
    const [name = "", inline] = (argv[index] ?? "").split("=");
    if (name === "--deno") engine = "deno";
    else if (name === "--target") {
      const target = (inline ?? argv[++index] ?? "").replace(/^bun-/, "");
      if (!TARGETS.includes(target)) {
        return `Cannot compile for "${target}": want ${TARGETS.join(", ")}`;
      }
      targets.push(target);
    } else if (name === "--into") directory = resolve(inline ?? argv[++index] ?? "");
    else return `Cannot take "${name}": want --target TARGET, --deno or --into DIR`;
  }
  if (engine === "deno" && targets.length > 0) return "Cannot use --target with --deno";
  return { engine, targets, directory };
}

/** Abbreviated commit, with `+` where the tree differs from the commit. */
function commitOfTree(): string {
  const git = (...args: string[]) =>
    execFileSync("git", ["-C", ROOT, ...args], { encoding: "utf8", stdio: ["ignore", "pipe", 2] });
  try {
    const changed = git("status", "--porcelain", "--untracked-files=no").trim() !== "";
    return git("rev-parse", "--short=7", "HEAD").trim() + (changed ? "+" : "");
  } catch {
    return "unknown"; // not a clone: an archive of the sources has no commit to name
  }
}

interface Place {
  readonly directory: string;
  readonly commit: string;
}

function compileOnBun(target: string | undefined, { directory, commit }: Place): number {
  const output = join(directory, target === undefined ? "postern" : `postern-${target}`);
  const runtime = join(directory, `.${basename(output)}-runtime`);
  writeFileSync(runtime, deafened(readFileSync(runtimeFor(target))), { mode: 0o755 });
  const types = join(directory, PACKED_NAME);
  writeFileSync(types, packedTypes());
  const sources = copyOfSources();
  const args = [
    "build",
    "--compile",
    // Less to read and keep in memory; names stay, since errors and profiles show them.
    "--minify",
    "--keep-names",
    // Modules that are imported only when they are needed stay out of memory until then.
    "--splitting",
    "--chunk-naming",
    "[name]-[hash].[ext]",
    // The executable must not listen to files that lie where it happens to be started.
    "--no-compile-autoload-dotenv",
    "--no-compile-autoload-bunfig",
    "--no-compile-autoload-tsconfig",
    "--no-compile-autoload-package-json",
    // All entry points side by side: "./worker.ts" is then the worker inside the executable, too.
    "--entry-naming",
    "[name].[ext]",
    "--asset-naming",
    "[name].[ext]",
    "--define",
    `POSTERN_COMMIT=${JSON.stringify(commit)}`,
    ...(target === undefined ? [] : [`--target=bun-${target}`]),
    `--compile-executable-path=${runtime}`,
    "--outfile",
    output,
    join(sources, MAIN),
    join(sources, WORKER),
    types,
  ];
  const ended = spawnSync(BUN, args, { cwd: sources, stdio: ["ignore", 2, 2] });
  rmSync(runtime);
  rmSync(types);
  rmSync(sources, { recursive: true });
  if (ended.error) return failed(`Cannot run ${BUN}: ${ended.error.message}; run "deno install"`);
  if (ended.status !== 0) return failed(`Cannot compile ${output}: see above`);
  return report(output, { engine: "bun", runsHere: target === undefined });
}

/**
 * The sources with a package.json, which declares that importing a module has no effect by itself: each
 * thread then loads only files of which it uses something. In the repository Deno would take that file for
 * a project of its own.
 */
function copyOfSources(): string {
  const copy = mkdtempSync(join(tmpdir(), "postern-compile-"));
  for (const part of ["src", "plugins", "deno.json"]) {
    cpSync(join(ROOT, part), join(copy, part), {
      recursive: true,
      filter: (path) => !path.endsWith("_test.ts"),
    });
  }
  symlinkSync(join(ROOT, "node_modules"), join(copy, "node_modules"));
  writeFileSync(
    join(copy, "package.json"),
    JSON.stringify({ name: "postern", version: "0.0.0", sideEffects: false }),
  );
  return copy;
}

/** Bun for `target`, which Bun itself fetches when it compiles something for it. */
function runtimeFor(target: string | undefined): string {
  if (target === undefined) return BUN;
  const version = execFileSync(BUN, ["--version"], { encoding: "utf8" }).trim();
  const directory = join(cacheDirectory(), `bun-${version}-${target}`);
  const fetched = () => readdirSync(directory).find((name) => name.endsWith(`-v${version}`));
  mkdirSync(directory, { recursive: true });
  if (fetched() === undefined) {
    const unused = join(directory, "unused");
    const args = [
      "build",
      "--compile",
      `--target=bun-${target}`,
      "--outfile",
      unused,
      join(ROOT, WORKER),
    ];
    execFileSync(BUN, args, {
      cwd: ROOT,
      stdio: ["ignore", 2, 2],
      env: { ...process.env, BUN_INSTALL_CACHE_DIR: directory },
    });
    rmSync(unused);
  }
  return join(directory, fetched() ?? "");
}

function compileOnDeno({ directory, commit }: Place): number {
  const output = join(directory, "postern-deno");
  const entry = join(directory, "postern_deno.ts");
  const define = join(directory, "postern_deno_commit.ts");
  // Deno replaces no names; a module that runs first sets the one that src/app/process/version.ts looks for.
  writeFileSync(
    define,
    `Object.assign(globalThis, { POSTERN_COMMIT: ${JSON.stringify(commit)} });\n`,
  );
  writeFileSync(
    entry,
    `import "./postern_deno_commit.ts";\nimport ${JSON.stringify(join(ROOT, MAIN))};\n`,
  );
  const args = [
    "compile",
    "--config",
    join(ROOT, "deno.json"),
    "--no-check",
    "--no-prompt",
    // Any address, any file that a flag names; of other programs only the one that notifies systemd.
    "--allow-net",
    "--allow-env",
    "--allow-read",
    "--allow-write",
    "--allow-sys=hostname,uid,gid,osRelease",
    "--allow-run=systemd-notify",
    "--include",
    join(ROOT, WORKER),
    // The test suite's other runtime would be swept into the executable.
    "--exclude",
    join(ROOT, "node_modules", "bun"),
    ...["bun@", "@oven+"].flatMap((prefix) => excludedPackages(prefix)),
    "--output",
    output,
    entry,
  ];
  try {
    const ended = spawnSync(process.execPath, args, { cwd: ROOT, encoding: "utf8" });
    if (ended.error) return failed(`Cannot run deno: ${ended.error.message}`);
    process.stderr.write(ended.stderr);
    if (ended.status === 0) return report(output, { engine: "deno", runsHere: true });
    if (!/base binary|denort/.test(ended.stderr)) {
      return failed(`Cannot compile ${output}: see above`);
    }
    failed(
      "Cannot compile for Deno: its base binary (denort) could not be had; put the one of " +
        "this Deno version into a file and name it in DENORT_BIN",
    );
    return NO_BASE_BINARY;
  } finally {
    rmSync(entry);
    rmSync(define);
  }
}

function excludedPackages(prefix: string): string[] {
  const store = join(ROOT, "node_modules", ".deno");
  return readdirSync(store).filter((name) => name.startsWith(prefix)).flatMap((name) => [
    "--exclude",
    join(store, name),
  ]);
}

/**
 * Prints the files made; one for this machine is also started, and tried with variables that it must
 * ignore.
 */
function report(
  output: string,
  { engine, runsHere }: { readonly engine: Request["engine"]; readonly runsHere: boolean },
): number {
  const megabytes = (statSync(output).size / 1e6).toFixed(0);
  if (!runsHere) {
    process.stdout.write(`${output}  ${megabytes} MB\n`);
    return 0;
  }
  const ended = spawnSync(output, ["version"], { encoding: "utf8", env: {} });
  if (ended.status !== 0) return failed(`Cannot start ${output}: ${ended.stderr ?? ended.error}`);
  const heeded = engine === "bun" ? firstHeeded(output) : undefined;
  if (heeded !== undefined) return failed(`Cannot use ${output}: it still listens to ${heeded}`);
  process.stdout.write(`${output}  ${megabytes} MB  ${ended.stdout}`);
  return 0;
}

function failed(message: string): 1 {
  process.stderr.write(`${message}\n`);
  return 1;
}

function main(): number {
  const request = readArguments(process.argv.slice(2));
  if (typeof request === "string") {
    process.stderr.write(`${request}\n`);
    return 2;
  }
  const { directory } = request;
  mkdirSync(directory, { recursive: true });
  const place = { directory, commit: commitOfTree() };
  if (request.engine === "deno") return compileOnDeno(place);
  const targets = request.targets.length === 0 ? [undefined] : request.targets;
  for (const target of targets) {
    const code = compileOnBun(target, place);
    if (code !== 0) return code;
  }
  return 0;
}

process.exit(main());
