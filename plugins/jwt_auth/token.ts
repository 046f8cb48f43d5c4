/**
 * Parses and judges a token in compact form, except for its signature. Refusals have Envoy's texts, which
 * people search for.
 *
 * @module
 */

import type { Claims } from "../../src/plugin/verified_claims.ts";

export const REFUSED = {
  missing: "Jwt is missing",
  format: "Jwt is not in the form of Header.Payload.Signature with two dots and 3 sections",
  headerEncoding: "Jwt header is an invalid Base64url encoded",
  headerJson: "Jwt header is an invalid JSON",
  noAlgorithm: "Jwt header [alg] field is required and must be a string",
  algorithm: "Jwt header [alg] is not supported",
  keyName: "Jwt header [kid] field is not a string",
  payloadEncoding: "Jwt payload is an invalid Base64url encoded",
  payloadJson: "Jwt payload is an invalid JSON",
  noIssuer: "Jwt payload [iss] field is not a string",
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
/** The text of a refusal. */
export type Refused = string;

/** Neither algorithms with shared secrets nor `none`. */
const ALGORITHMS: readonly string[] = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
  "Ed25519",
];
/** Longer tokens are refused unread. */
const TOKEN_LIMIT_CHARS = 16_384;
const PART = /^[A-Za-z0-9_-]*$/;

export interface JwtToken {
  readonly text: string;
  readonly algorithm: string;
  /** `undefined`: the token names no key. */
  readonly keyName: string | undefined;
  readonly claims: Claims;
  /** The encoded payload. */
  readonly payload: string;
}

/** Requirements on the registered claims. */
export interface TokenTerms {
  readonly issuer: string;
  /** Empty: any audience. */
  readonly audiences: readonly string[];
  readonly clockSkewSeconds: number;
}

export function readToken(text: string): JwtToken | Refused {
  const parts = text.length > TOKEN_LIMIT_CHARS ? [] : text.split(".");
  const [head = "", payload = "", signature = ""] = parts;
  if (parts.length !== 3 || parts.includes("")) return REFUSED.format;
  if (!isEncoded(head)) return REFUSED.headerEncoding;
  const header = objectIn(head);
  if (!header) return REFUSED.headerJson;
  const { alg, kid } = header;
  if (typeof alg !== "string") return REFUSED.noAlgorithm;
  if (/^HS\d+$/.test(alg)) return REFUSED.noKey;
  if (!ALGORITHMS.includes(alg)) return REFUSED.algorithm;
  if (kid !== undefined && typeof kid !== "string") return REFUSED.keyName;
  if (!isEncoded(payload)) return REFUSED.payloadEncoding;
  const claims = objectIn(payload);
  if (!claims) return REFUSED.payloadJson;
  const fault = faultOf(claims);
  if (fault) return fault;
  if (!isEncoded(signature)) return REFUSED.signatureEncoding;
  // Critical extensions are not supported, so such tokens must be refused (RFC 7515 4.1.11).
  if (Object.hasOwn(header, "crit") || Object.hasOwn(header, "b64")) return REFUSED.signature;
  return { text, algorithm: alg, keyName: kid, claims, payload };
}

function faultOf(claims: Claims): Refused | undefined {
  if (claims.iss !== undefined && typeof claims.iss !== "string") return REFUSED.noIssuer;
  for (const name of TIMES) {
    const time = claims[name];
    if (time === undefined) continue;
    if (typeof time !== "number") return `Jwt payload [${name}] field is not an integer`;
    if (time < 0) return `Jwt payload [${name}] field is not a positive 64 bit integer`;
  }
  return undefined;
}

const TIMES = ["exp", "nbf", "iat"];

/** `undefined`: the claims are accepted. Times that the token does not have are not checked, as in Envoy. */
export function whyRefused(claims: Claims, terms: TokenTerms, nowMs: number): Refused | undefined {
  if (claims.iss !== terms.issuer) return REFUSED.issuer;
  const now = nowMs / 1_000;
  const { nbf, exp } = claims;
  if (typeof nbf === "number" && now + terms.clockSkewSeconds < nbf) return REFUSED.early;
  if (typeof exp === "number" && now - terms.clockSkewSeconds > exp) return REFUSED.expired;
  if (terms.audiences.length === 0) return undefined;
  const audiences: readonly unknown[] = Array.isArray(claims.aud) ? claims.aud : [claims.aud];
  return terms.audiences.some((one) => audiences.includes(one)) ? undefined : REFUSED.audience;
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
    return undefined; // not UTF-8 or not JSON: the caller names the part
  }
}

function codeOf(char: string): number {
  return char.charCodeAt(0);
}
