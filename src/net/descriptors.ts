/**
 * How many more files and sockets this process may open.
 *
 * @module
 */

import { readdirSync, readFileSync, statSync } from "node:fs";

const OPEN = "/proc/self/fd";

/**
 * Soft limit of open files less those open now; `Infinity` where the system does not say. 0 when not
 * even this can be found out any more. A few microseconds; before Linux 6.2 as long as listing them all.
 */
export function fdHeadroom(): number {
  try {
    return softLimit() - openCount();
  } catch (error) {
    const { code } = error as { readonly code?: string };
    return code === "EMFILE" || code === "ENFILE" ? 0 : Infinity;
  }
}

function softLimit(): number {
  // The limit can be changed from outside at any time, so it is not remembered.
  const line = /^Max open files\s+(\S+)/m.exec(readFileSync("/proc/self/limits", "utf8"));
  const limit = Number(line?.[1]);
  return Number.isSafeInteger(limit) ? limit : Infinity;
}

function openCount(): number {
  // The size of the directory is the number of open files, once the kernel fills it in.
  return statSync(OPEN).size || readdirSync(OPEN).length;
}
