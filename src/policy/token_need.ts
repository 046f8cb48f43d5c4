/**
 * Tokens that an intention demands besides a source: one of them must be from a provider that it names,
 * with the demanded claims. The caller has verified them; an unverified token allows nothing.
 *
 * @module
 */

/** Plain data, sent between threads. */
export interface TokenNeed {
  /** Consul's name of it: `okta`. */
  readonly provider: string;
  /** All of them. */
  readonly claims: readonly ClaimNeed[];
}

export interface ClaimNeed {
  /** From the outermost name inwards; never empty. */
  readonly path: readonly string[];
  readonly value: string;
}

/** Claims of the verified tokens of one request, by provider; an absent provider has none. */
export type VerifiedClaims = ReadonlyMap<string, Readonly<Record<string, unknown>>>;

/** One of `needs` is enough; absent: none is demanded. */
export function hasToken(
  needs: readonly TokenNeed[] | undefined,
  verified: VerifiedClaims | undefined,
): boolean {
  if (!needs) return true;
  return needs.some(({ provider, claims }) => {
    const said = verified?.get(provider);
    return said !== undefined && claims.every((need) => isSaid(need, said));
  });
}

/** Compares like the rules that Consul gives Envoy: the claim is a text, not a list with it. */
function isSaid({ path, value }: ClaimNeed, said: unknown): boolean {
  let at = said;
  for (const name of path) {
    if (typeof at !== "object" || at === null || Array.isArray(at)) return false;
    if (!Object.hasOwn(at, name)) return false;
    at = (at as Readonly<Record<string, unknown>>)[name];
  }
  return at === value;
}

/** `a token of okta with roles, or of auth0`: values may be secrets. */
export function needText(needs: readonly TokenNeed[]): string {
  const texts = needs.map(({ provider, claims }) => {
    const names = claims.map(({ path }) => path.join("."));
    return names.length === 0 ? provider : `${provider} with ${names.join(", ")}`;
  });
  return `a token of ${texts.join(", or of ")}`;
}

/** Why none of `needs` is met, by provider: `okta: Jwt is expired`; no fault: no keys here. */
export function faultsOfTokens(
  needs: readonly TokenNeed[],
  { verified, faults }: {
    readonly verified: VerifiedClaims | undefined;
    readonly faults: ReadonlyMap<string, string> | undefined;
  },
): readonly string[] {
  const texts = needs.map(({ provider, claims }) => {
    const said = verified?.get(provider);
    if (!said) {
      return `${provider}: ${faults?.get(provider) ?? "no keys to verify its tokens with"}`;
    }
    const missing = claims.filter((need) => !isSaid(need, said)).map(({ path }) => path.join("."));
    return `${provider}: the token does not say what is asked for of ${missing.join(", ")}`;
  });
  return [...new Set(texts)];
}
