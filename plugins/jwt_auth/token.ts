/**
 * A token in compact form, read and judged in all but its signature. Refusals are worded as Envoy words
 * them, since people search for these.
 *
 * @module
 */

import type { Claims } from "./claims.ts";

export const REFUSED = {
  missing: "Jwt is missing",
  format: "Jwt is not in the form of Header.Payload.Signature with two dots and 3 sections",
  headerEncoding: "Jwt header is an invalid Base64url encoded",
  headerJson: "Jwt header is an invalid JSON",
  algorithm: "Jwt header [alg] is not supported",
  keyName: "Jwt header [kid] field is not a string",
  payloadEncoding: "Jwt payload is an invalid Base64url encoded",
  payloadJson: "Jwt payload is an invalid JSON",
  signatureEncoding: "Jwt signature is an invalid Base64url encoded",
  issuer: "Jwt issuer is not configured",
  early: "Jwt not yet valid",
  expired: "Jwt is expired",
  audience: "Audiences in Jwt are not allowed",
  signature: "Jwt verification fails",
  noKey: "Jwks doesn't have key to match kid or alg from Jwt",
  noKeys: "Jwks remote fetch is failed",
  claim: "a claim of the Jwt is not what is asked for",
} as const;
export type Refused = keyof typeof REFUSED;

/** None that a secret shared with the issuer would do for, and not `none`. */
const ALGORITHMS: readonly string[] = [
  ...["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
  ...["ES256", "ES384", "ES512", "EdDSA", "Ed25519"],
];
/** Longer ones are not looked at. */
const TOKEN_LIMIT_CHARS = 16_384;
const PART = /^[A-Za-z0-9_-]*$/;

export interface Token {
  readonly text: string;
  readonly algorithm: string;
  /** `undefined`: it names no key. */
  readonly keyName: string | undefined;
  readonly claims: Claims;
  /** As it stands in the token. */
  readonly payload: string;
}

/** What is asked of claims. */
export interface Terms {
  readonly issuer: string;
  /** Empty: any. */
  readonly audiences: readonly string[];
  readonly clockSkewSeconds: number;
}

export function readToken(text: string): Token | Refused {
  const parts = text.length > TOKEN_LIMIT_CHARS ? [] : text.split(".");
  const [head = "", payload = "", signature = ""] = parts;
  if (parts.length !== 3) return "format";
  if (!isEncoded(head)) return "headerEncoding";
  const header = objectIn(head);
  if (!header) return "headerJson";
  const { alg, kid } = header;
  if (typeof alg !== "string" || !ALGORITHMS.includes(alg)) return "algorithm";
  if (kid !== undefined && typeof kid !== "string") return "keyName";
  if (!isEncoded(payload)) return "payloadEncoding";
  const claims = objectIn(payload);
  if (!claims || !TIMES.every((name) => isTime(claims[name]))) return "payloadJson";
  if (!isEncoded(signature)) return "signatureEncoding";
  // Whoever must be understood to be trusted is not: nothing that needs this is known here.
  if (Object.hasOwn(header, "crit") || Object.hasOwn(header, "b64")) return "signature";
  return { text, algorithm: alg, keyName: kid, claims, payload };
}

const TIMES = ["exp", "nbf", "iat"];

/** `undefined`: there is nothing against it. A token that says no time has none, as with Envoy. */
export function whyRefused(claims: Claims, terms: Terms, nowMs: number): Refused | undefined {
  if (claims.iss !== terms.issuer) return "issuer";
  const now = nowMs / 1_000;
  const { nbf, exp } = claims;
  if (typeof nbf === "number" && now + terms.clockSkewSeconds < nbf) return "early";
  if (typeof exp === "number" && now - terms.clockSkewSeconds > exp) return "expired";
  if (terms.audiences.length === 0) return undefined;
  const audiences: readonly unknown[] = Array.isArray(claims.aud) ? claims.aud : [claims.aud];
  return terms.audiences.some((one) => audiences.includes(one)) ? undefined : "audience";
}

function isTime(value: unknown): boolean {
  return value === undefined || typeof value === "number" && value >= 0;
}

function isEncoded(part: string): boolean {
  return PART.test(part) && part.length % 4 !== 1;
}

const decoder = new TextDecoder("utf-8", { fatal: true });

function objectIn(part: string): Claims | undefined {
  try {
    const bytes = atob(part.replaceAll("-", "+").replaceAll("_", "/"));
    const value: unknown = JSON.parse(decoder.decode(Uint8Array.from(bytes, codeOf)));
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject ? value as Claims : undefined;
  } catch {
    return undefined; // not UTF-8, or no JSON: the caller says which part it is
  }
}

function codeOf(char: string): number {
  return char.charCodeAt(0);
}
