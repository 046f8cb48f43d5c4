/**
 * The SDS server that the tests talk to: built from `test/peers/sds_server` into the cache, once for
 * every state of its sources. Prints the path.
 *
 * @module
 */

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { cacheDirectory, isExecutable } from "./cache.ts";
import { buildGo } from "./go.ts";

const MODULE = join(dirname(fileURLToPath(import.meta.url)), "..", "test", "peers", "sds_server");

/** Where the binary of the sources as they are now lies, whether or not it is there yet. */
export function sdsServerPath(): string {
  const hash = createHash("sha256");
  for (const file of readdirSync(MODULE).sort()) {
    hash.update(`${file}\n`).update(readFileSync(join(MODULE, file)));
  }
  return join(cacheDirectory(), `sds-server-${hash.digest("hex").slice(0, 12)}`, "sds_server");
}

/** The binary's path; builds it where it is missing (a minute or two with a cold Go cache). */
export async function ensureSdsServer(): Promise<string> {
  const path = sdsServerPath();
  if (!isExecutable(path)) await buildGo({ module: MODULE, package: ".", to: path });
  return path;
}

if (import.meta.main) console.log(await ensureSdsServer());
