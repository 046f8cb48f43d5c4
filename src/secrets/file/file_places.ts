/**
 * Where to look for changes of a file: the directory that holds it, and each directory that holds a
 * symbolic link on the way to it, because that is where `mv -T` and Kubernetes swap what it leads to.
 * Where a part is missing, the deepest directory that is there: what is missing appears in it.
 *
 * @module
 */

import { posix } from "node:path";
import type { FileSystem } from "./file_system.ts";

/** A directory and the names in it whose change means a change of the file. */
export interface WatchedNames {
  readonly directory: string;
  readonly name: string;
}

/** As Linux counts before it says ELOOP. */
const LINK_LIMIT = 40;
const PART_LIMIT = 256;

/**
 * The places of one absolute path, links followed. `known` remembers what parts of paths are, so that
 * a thousand files of one directory cost little more than one: give one map per round.
 */
export async function placesOf(
  path: string,
  files: Pick<FileSystem, "entry">,
  known = new Map<string, ReturnType<FileSystem["entry"]>>(),
): Promise<readonly WatchedNames[]> {
  const places: WatchedNames[] = [];
  let rest = posix.resolve("/", path).split("/").filter((part) => part !== "");
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
        // The last part, too: a directory in the place of a file may make room for it again.
        if (after.length === 0) places.push({ directory, name });
        directory = here;
        break;
      case "symlink": {
        places.push({ directory, name });
        if (++links > LINK_LIMIT) return places;
        const target = posix.resolve(directory, entry.target);
        rest = [...target.split("/").filter((part) => part !== ""), ...after];
        directory = "/";
        break;
      }
      case "other":
      case "none":
        places.push({ directory, name });
        return places;
    }
  }
  return places;
}
