/**
 * The directories in which a change of a file shows: its own directory, and that of each symbolic link on
 * its path, because `mv -T` and Kubernetes swap the target there. A missing part shows in the deepest
 * directory that exists.
 *
 * @module
 */

import { posix } from "node:path";
import type { FileSystem } from "./file_system.ts";

/** A directory, and a name in it whose change means a change of the file. */
export interface WatchedName {
  readonly directory: string;
  readonly name: string;
}

/** Linux' own limit before ELOOP. */
const LINK_LIMIT = 40;
const PART_LIMIT = 256;

/**
 * The places of one absolute path. `known` remembers entries, so that a thousand files of one directory
 * cost little more than one: pass one map per round.
 */
export async function placesOf(
  path: string,
  files: Pick<FileSystem, "entry">,
  known = new Map<string, ReturnType<FileSystem["entry"]>>(),
): Promise<readonly WatchedName[]> {
  const places: WatchedName[] = [];
  let rest = partsOf(posix.resolve("/", path));
  let directory = "/";
  let links = 0;
  for (let parts = 0; rest.length > 0 && parts < PART_LIMIT; parts++) {
    const [name = "", ...after] = rest;
    const here = posix.join(directory, name);
    let lookup = known.get(here);
    if (!lookup) known.set(here, lookup = files.entry(here));
    const entry = await lookup;
    rest = after;
    switch (entry.kind) {
      case "directory":
        // A directory at the path of the file may make room for it again.
        if (after.length === 0) places.push({ directory, name });
        directory = here;
        break;
      case "symlink":
        places.push({ directory, name });
        if (++links > LINK_LIMIT) return places;
        rest = [...partsOf(posix.resolve(directory, entry.target)), ...after];
        directory = "/";
        break;
      case "other":
      case "none":
        places.push({ directory, name });
        return places;
    }
  }
  return places;
}

function partsOf(path: string): string[] {
  return path.split("/").filter((part) => part !== "");
}
