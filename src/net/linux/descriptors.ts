/**
 * The limit of files and sockets that this process may open, and how many are left.
 *
 * @module
 */

import { readdirSync, readFileSync, statSync } from "node:fs";

const OPEN = "/proc/self/fd";

/**
 * Soft limit of open files less those open now; `Infinity`: the system does not say. 0: no descriptor is
 * left to read it with. A few microseconds; before Linux 6.2 as long as listing them all.
 */
export function fdHeadroom(): number {
  try {
    return (readLimit() ?? Infinity) - openCount();
  } catch (error) {
    const { code } = error as { readonly code?: string };
    return code === "EMFILE" || code === "ENFILE" ? 0 : Infinity;
  }
}

/** The soft limit of open files; undefined: the system does not say. */
export function descriptorLimit(): number | undefined {
  try {
    return readLimit();
  } catch {
    return undefined; // no /proc here: other systems raise the limit themselves
  }
}

/** The soft limit in the text of `/proc/self/limits`; undefined: none. */
export function parseLimits(text: string): number | undefined {
  const soft = /^Max open files\s+(\d+|unlimited)\s/m.exec(text)?.[1];
  return soft === undefined || soft === "unlimited" ? undefined : Number(soft);
}

function readLimit(): number | undefined {
  // The limit can be changed from outside at any time, so it is not cached.
  return parseLimits(readFileSync("/proc/self/limits", "utf8"));
}

function openCount(): number {
  // The size of the directory is the number of open files; 0 before Linux 6.2.
  return statSync(OPEN).size || readdirSync(OPEN).length;
}
