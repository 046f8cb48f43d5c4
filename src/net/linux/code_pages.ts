/**
 * Gives back the pages of the executable's code that only the start needed. A runtime runs through
 * tens of megabytes of code once and then through little of it; the kernel keeps all of it mapped. The
 * pages are clean copies of the file: what is used again comes back from the page cache, a page at a
 * time, and nothing is lost.
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

/** Whether something was given back. Linux only; does nothing where it is not sure. */
export function releaseCodePages(): boolean {
  try {
    const mapping = codeMapping(
      readFileSync("/proc/self/smaps", "utf8"),
      readlinkSync("/proc/self/exe"),
    );
    if (!mapping) return false;
    return cLibrary()?.madvise(mapping.start, mapping.length, MADV_DONTNEED) === 0;
  } catch {
    // No /proc, or not ours to read: the memory stays as it is.
    return false;
  }
}

/**
 * The one executable mapping of `executable` in the text of `/proc/self/smaps`, provided that no page
 * of it was changed in memory: such a page would be lost.
 */
export function codeMapping(smaps: string, executable: string): Mapping | undefined {
  const found: Mapping[] = [];
  let unchanged = true;
  let inside = false;
  for (const line of smaps.split("\n")) {
    const head = /^([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \S+ *(.*)$/.exec(line);
    if (head) {
      const [, from = "", to = "", rights = "", path] = head;
      inside = rights === "r-xp" && path === executable;
      const start = parseInt(from, 16);
      if (inside) found.push({ start, length: parseInt(to, 16) - start });
    } else if (inside && /^(?:Private_Dirty|Shared_Dirty|Anonymous|Locked): +[1-9]/.test(line)) {
      unchanged = false;
    }
  }
  return unchanged && found.length === 1 ? found[0] : undefined;
}
