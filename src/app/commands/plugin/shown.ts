/**
 * How commands for authors speak.
 *
 * @module
 */

import { relative } from "node:path";
import process from "node:process";

export type Write = (text: string) => void;

/** A path as one would type it. */
export function shown(path: string): string {
  const near = relative(process.cwd(), path);
  return near.startsWith("..") ? path : near;
}
