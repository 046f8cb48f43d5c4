/**
 * JSON Web Tokens (RFC 7519) as an auth method of type `jwt` takes them: signed by one of its keys, for one
 * of its audiences, from its issuer, and in force.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { type KeyObject, verify } from "node:crypto";
import { isObject, type JsonObject } from "../http/decode.ts";

export interface JwtRules {
  readonly keys: readonly KeyObject[];
  /** `""`: any. */
  readonly issuer: string;
  /** Empty: none may be named. */
  readonly audiences: readonly string[];
  readonly nowMs: number;
}

/** Clocks of others may be off by so much, as Consul's default has it. */
const LEEWAY_S = 150;

/** Its claims; throws an Error that says what is wrong, in Consul's words where they are known. */
export function verifyJwt(token: string, { keys, issuer, audiences, nowMs }: JwtRules): JsonObject {
  if (token === "") throw new Error("missing jwt");
  const [head = "", body = "", signature = "", ...rest] = token.split(".");
  if (signature === "" || rest.length > 0) {
    throw new Error(
      "error parsing token: go-jose/go-jose: compact JWS format must have three parts",
    );
  }
  const alg = partOf(head)["alg"];
  const signed = Buffer.from(`${head}.${body}`);
  const bytes = Buffer.from(signature, "base64url");
  const isSigned = keys.some((key) => {
    const isEc = key.asymmetricKeyType === "ec";
    if (alg !== (isEc ? "ES256" : "RS256")) return false;
    return verify("sha256", signed, isEc ? { key, dsaEncoding: "ieee-p1363" } : key, bytes);
  });
  if (!isSigned) {
    throw new Error(
      "error validating token: no known key successfully validated the token signature",
    );
  }
  const claims = partOf(body);
  const nowS = nowMs / 1000;
  const { exp, nbf, iss, aud } = claims;
  if (typeof exp === "number" && exp + LEEWAY_S < nowS) throw new Error(EXPIRED);
  if (typeof nbf === "number" && nbf - LEEWAY_S > nowS) throw new Error(EARLY);
  if (issuer !== "" && iss !== issuer) {
    throw new Error("error validating token: invalid issuer (iss) claim");
  }
  const named = Array.isArray(aud) ? aud : aud === undefined ? [] : [aud];
  const isForUs = audiences.length === 0
    ? named.length === 0
    : named.some((name) => typeof name === "string" && audiences.includes(name));
  if (!isForUs) throw new Error("error validating token: invalid audience (aud) claim");
  return claims;
}

const EXPIRED = "error validating token: token is expired";
const EARLY = "error validating token: token is not valid yet";

function partOf(text: string): JsonObject {
  let part: unknown;
  try {
    part = JSON.parse(Buffer.from(text, "base64url").toString());
  } catch {
    // What is no JSON is no object, either.
  }
  if (!isObject(part)) throw new Error("error parsing token: go-jose/go-jose: malformed JWS");
  return part;
}
