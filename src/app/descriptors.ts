/**
 * How many connections the process's file descriptors allow. A listener that has none left is told of
 * the waiting connection again and again and can do nothing about it, so the limit on connections must
 * be reached first.
 *
 * @module
 */

import { readFileSync } from "node:fs";

/** The socket that was accepted and the one that was dialled for it. */
const PER_CONNECTION = 2;
/** Listeners, the agent, files, the runtime. */
const RESERVE = 256;

/** `wanted`, or fewer where that many do not fit; `limit` of `undefined`: unknown, taken as enough. */
export function fittingConnections(wanted: number, limit: number | undefined): number {
  if (limit === undefined) return wanted;
  const reserve = Math.min(RESERVE, Math.floor(limit / 2));
  return Math.max(1, Math.min(wanted, Math.floor((limit - reserve) / PER_CONNECTION)));
}

/** The soft limit on open files, where the system tells (Linux). */
export function descriptorLimit(): number | undefined {
  try {
    return parseLimits(readFileSync("/proc/self/limits", "utf8"));
  } catch {
    return undefined; // no /proc here: other systems raise the limit themselves
  }
}

export function parseLimits(text: string): number | undefined {
  const soft = /^Max open files\s+(\d+|unlimited)\s/m.exec(text)?.[1];
  return soft === undefined || soft === "unlimited" ? undefined : Number(soft);
}
