/**
 * Whether verified tokens say what somebody asks for.
 *
 * @module
 */

import type { Claims } from "../../src/plugin/verified_claims.ts";

/**
 * Whether the claim is that text, or a list that has it. Only what is text in the token is equal to a
 * text, and no list within a list counts.
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
