/**
 * An issuer of tokens for tests: keys of its own, and what it signs with them.
 *
 * @module
 */

import { exportJWK, generateKeyPair, type JWK, SignJWT } from "jose";

export interface Issuer {
  readonly jwk: JWK;
  /** As `jsonWebKeySet.local.jwks` wants it. */
  readonly jwks: string;
  sign(claims?: Record<string, unknown>, header?: Record<string, unknown>): Promise<string>;
}

export const ISSUER = "https://idp.example";

export async function makeIssuer(kid = "one", alg = "ES256"): Promise<Issuer> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  const jwk = { ...await exportJWK(publicKey), kid, alg, use: "sig" };
  return {
    jwk,
    jwks: btoa(JSON.stringify({ keys: [jwk] })),
    sign: (claims = {}, header = {}) =>
      new SignJWT({ iss: ISSUER, ...claims })
        .setProtectedHeader({ alg, kid, ...header })
        .sign(privateKey),
  };
}

/** Header and payload as they are given, with that signature. */
export function rawToken(header: unknown, claims: unknown, signature = "AAAA"): string {
  return `${encoded(header)}.${encoded(claims)}.${signature}`;
}

function encoded(value: unknown): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
