/**
 * What verified tokens say, for layers further in: `jwt_auth` leaves it on the exchange. The proxy reads it,
 * too, for intentions that demand tokens.
 *
 * @module
 */

import type { StateKey } from "../src/plugin/api.ts";

export type Claims = Readonly<Record<string, unknown>>;

/** Claims of the verified token of each provider that was asked for, by the provider's name. */
export const VERIFIED_CLAIMS: StateKey<ReadonlyMap<string, Claims>> = {
  description: "jwt_auth: claims of verified tokens by provider",
};

/** Why a provider that was asked for has no verified token, by the provider's name: `Jwt is expired`. */
export const TOKEN_FAULTS: StateKey<ReadonlyMap<string, string>> = {
  description: "jwt_auth: why tokens were not verified, by provider",
};
