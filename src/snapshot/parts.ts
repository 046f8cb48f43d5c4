/**
 * Versions of parts: a part whose content is what it was stays the same object with the same version,
 * so that everything downstream can compare by version alone.
 *
 * @module
 */

import type { SnapshotPart } from "./snapshot.ts";

/** Content of a part, before it has a version. */
export type Content<T extends SnapshotPart> = Omit<T, "version">;

/** `previous` when its content equals `content`, else a new part of that `version`. */
export function keepPart<T extends SnapshotPart>(
  previous: T | null | undefined,
  content: Content<T>,
  version: number,
): T {
  if (previous) {
    const { version: _, ...old } = previous;
    if (sameContent(old, content)) return previous;
  }
  // The spread of an Omit and the omitted key make T again; the compiler cannot see that for a generic.
  return { ...content, version } as unknown as T;
}

/** Deep equality of plain data. Absent and `undefined` members are the same. */
export function sameContent(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false;
    return a.every((value, index) => sameContent(value, b[index]));
  }
  const left = a as Record<string, unknown>;
  const right = b as Record<string, unknown>;
  for (const key of Object.keys(left)) if (!sameContent(left[key], right[key])) return false;
  for (const key of Object.keys(right)) {
    if (right[key] !== undefined && left[key] === undefined) return false;
  }
  return true;
}
