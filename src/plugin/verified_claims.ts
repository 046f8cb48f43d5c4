/** The keys under which plugins store what they verified about the caller of an exchange. @module */

import type { StateKey } from "./api.ts";

export type Claims = Readonly<Record<string, unknown>>;

/** Claims of the verified token of each provider that was checked, by the provider's name. */
export const VERIFIED_CLAIMS: StateKey<ReadonlyMap<string, Claims>> = {
  description: "jwt_auth: claims of verified tokens by provider",
};

/** Why a provider that was checked has no verified token, by the provider's name: `Jwt is expired`. */
export const TOKEN_FAULTS: StateKey<ReadonlyMap<string, string>> = {
  description: "jwt_auth: why tokens were not verified, by provider",
};

/** The name that belongs to a verified password or key. The response may be meant for this caller only. */
export const AUTHENTICATED: StateKey<string> = {
  description: "basic_auth, api_key: the name of the caller",
};
