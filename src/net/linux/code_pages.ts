/**
 * Releases pages of the executable's code and constants that are not in use now. A runtime runs through
 * tens of megabytes of code when it starts, again when it compiles, and then through little of it; the
 * kernel keeps all of it mapped. The pages are clean copies of the file: those used again come back from
 * the page cache, a few at a time, and nothing is lost.
 *
 * @module
 */

import { readFileSync, readlinkSync } from "node:fs";
import { cLibrary } from "./c_library.ts";

const MADV_DONTNEED = 4;

export interface Mapping {
  readonly start: number;
  readonly length: number;
}

/** Whether pages were released. Linux only; does nothing in doubt. */
export function releaseCodePages(): boolean {
  try {
    const smaps = readFileSync("/proc/self/smaps", "utf8");
    const library = cLibrary();
    let released = false;
    for (const { start, length } of codeMappings(smaps, readlinkSync("/proc/self/exe"))) {
      released = library?.madvise(start, length, MADV_DONTNEED) === 0 || released;
    }
    return released;
  } catch {
    // No /proc, or no right to read it: the memory stays as it is.
    return false;
  }
}

/**
 * The read-only mappings of `executable` in the text of `/proc/self/smaps`, without those that have a
 * page changed in memory: such a page, an anonymous one, would be lost. A dirty page that is not
 * anonymous is a page of the file, which was written a moment ago.
 */
export function codeMappings(smaps: string, executable: string): readonly Mapping[] {
  const found: Mapping[] = [];
  let inside = false;
  for (const line of smaps.split("\n")) {
    const head = /^([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \S+ *(.*)$/.exec(line);
    if (head) {
      const [, from = "", to = "", rights = "", path] = head;
      inside = (rights === "r-xp" || rights === "r--p") && path === executable;
      const start = parseInt(from, 16);
      if (inside) found.push({ start, length: parseInt(to, 16) - start });
    } else if (inside && /^(?:Anonymous|Locked): +[1-9]/.test(line)) {
      found.pop();
      inside = false;
    }
  }
  return found;
}
