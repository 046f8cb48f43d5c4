/** Checks the claims of verified tokens. @module */

import type { Claims } from "../../src/plugin/verified_claims.ts";

/**
 * Whether the claim at `path` is the string `value`, or an array that contains it. Values are not converted
 * (the number 1 is not "1"), and nested arrays are not searched.
 */
export function hasClaim(claims: Claims, path: readonly string[], value: string): boolean {
  let at: unknown = claims;
  for (const key of path) {
    if (typeof at !== "object" || at === null || Array.isArray(at)) return false;
    if (!Object.hasOwn(at, key)) return false;
    at = (at as Claims)[key];
  }
  return at === value || (Array.isArray(at) && at.includes(value));
}
