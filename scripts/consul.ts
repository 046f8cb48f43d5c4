/**
 * Finds the Consul that the tests talk to, or builds it: `$CONSUL_BIN`, else the cache, else
 * `go build` of the release's Go module as `scripts/consul/go.mod` pins it. Prints the path.
 * For tests only: nothing of it is copied into or shipped with the product.
 *
 * @module
 */

import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { cacheDirectory, isExecutable } from "./cache.ts";
import { buildGo, goSource } from "./go.ts";

const CONSUL_VERSION = "1.22.7";
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
  await buildGo({ module: MODULE, package: "github.com/hashicorp/consul", to: path });
  return path;
}

/** Where Consul's source of that version lies; fetched where it is missing. */
export function consulSource(): Promise<string> {
  return goSource({ module: MODULE, dependency: "github.com/hashicorp/consul" });
}

if (import.meta.main) console.log(await ensureConsul());
