/**
 * Peers of the tests that are Go programs: built from a module below `test/peers` into the cache, once
 * for every state of its files.
 *
 * @module
 */

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { cacheDirectory, isExecutable } from "./cache.ts";
import { buildGo } from "./go.ts";

export interface GoPeer {
  /** Directory below `test/peers`. */
  readonly module: string;
  /** The package that is built; `.` is the module itself. */
  readonly package: string;
  readonly binary: string;
}

export const SDS_SERVER: GoPeer = { module: "sds_server", package: ".", binary: "sds_server" };

/** Where the binary of the files as they are now lies, whether or not it is there yet. */
export function goPeerPath({ module, binary }: GoPeer): string {
  const hash = createHash("sha256");
  for (const file of readdirSync(directoryOf(module)).sort()) {
    hash.update(`${file}\n`).update(readFileSync(join(directoryOf(module), file)));
  }
  const state = hash.digest("hex").slice(0, 12);
  return join(cacheDirectory(), `${module.replaceAll("_", "-")}-${state}`, binary);
}

/** The binary's path; builds it where it is missing (a minute or two with a cold Go cache). */
export async function ensureGoPeer(peer: GoPeer): Promise<string> {
  const path = goPeerPath(peer);
  if (!isExecutable(path)) {
    await buildGo({ module: directoryOf(peer.module), package: peer.package, to: path });
  }
  return path;
}

function directoryOf(module: string): string {
  return join(dirname(fileURLToPath(import.meta.url)), "..", "test", "peers", module);
}
