/**
 * What verified tokens say, for layers further in, and whether they say what somebody asks for.
 *
 * @module
 */

import type { StateKey } from "../../src/plugin/api.ts";

export type Claims = Readonly<Record<string, unknown>>;

/** Claims of the verified token of each provider that was asked for, by the provider's name. */
export const VERIFIED_CLAIMS: StateKey<ReadonlyMap<string, Claims>> = {
  description: "jwt_auth: claims of verified tokens by provider",
};

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
