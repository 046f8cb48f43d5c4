/**
 * Auth methods of type `jwt`, their binding rules, and the tokens that logins give: for a while, with the
 * service identities that the rules name.
 *
 * @module
 */

import { createPublicKey } from "node:crypto";
import { errors, type JWTPayload, jwtVerify } from "jose";
import { type Clock, parseDurationMs, type Timer } from "../../../../src/base/mod.ts";
import { parseFilter } from "../../../../src/dev/filter.ts";
import { type JsonObject, objectAt, textAt, textsAt } from "../../../../src/dev/json.ts";
import type { Acl, Token } from "./acl.ts";

export interface LoginRequest {
  readonly method: string;
  readonly bearerToken: string;
  readonly meta: JsonObject;
}

/** Why a login failed: there is no such method, the bearer token is bad, or no rule binds it. */
export class LoginRefusal extends Error {
  readonly kind: "no_method" | "bearer_token" | "unbound";

  constructor(kind: LoginRefusal["kind"], text: string) {
    super(text);
    this.name = "LoginRefusal";
    this.kind = kind;
  }
}

/** The leeway that Consul grants by default to clocks of others. */
const LEEWAY_S = 150;

export class AuthMethods {
  readonly #acl: Acl;
  readonly #clock: Clock;
  readonly #methods = new Map<string, JsonObject>();
  readonly #rules: JsonObject[] = [];
  readonly #expiries = new Set<Timer>();

  constructor(acl: Acl, clock: Clock) {
    this.#acl = acl;
    this.#clock = clock;
  }

  /** The body of `PUT /v1/acl/auth-method`. */
  put(method: JsonObject): void {
    this.#methods.set(textAt(method, "Name"), method);
  }

  /** The body of `PUT /v1/acl/binding-rule`. */
  bind(rule: JsonObject): void {
    this.#rules.push(rule);
  }

  /** Rejects with a {@link LoginRefusal}. */
  async login({ method: name, bearerToken, meta }: LoginRequest): Promise<Token> {
    const method = this.#methods.get(name);
    if (!method) {
      throw new LoginRefusal("no_method", `auth method ${JSON.stringify(name)} not found`);
    }
    const config = objectAt(method, "Config");
    const claims = await this.#verified(config, bearerToken);
    const mapped = Object.entries(objectAt(config, "ClaimMappings"))
      .map(([claim, key]) => [String(key), String(claims[claim] ?? "")]);
    const value: JsonObject = Object.fromEntries(mapped);
    const serviceIdentities = this.#rules
      .filter((rule) => textAt(rule, "AuthMethod") === name)
      .filter((rule) => parseFilter(textAt(rule, "Selector"))({ value }))
      .map((rule) => filledIn(textAt(rule, "BindName"), value));
    if (serviceIdentities.length === 0) throw new LoginRefusal("unbound", "Permission denied");
    const ttlMs = parseDurationMs(textAt(method, "MaxTokenTTL")) ?? 0;
    const nowMs = this.#clock.now();
    const described = Object.keys(meta).length > 0 ? `: ${JSON.stringify(meta)}` : "";
    const token = this.#acl.add({
      serviceIdentities,
      login: {
        method: name,
        description: `token created via login${described}`,
        createdMs: nowMs,
        ...ttlMs > 0 ? { expiresMs: nowMs + ttlMs } : {},
      },
    });
    if (ttlMs > 0) this.#expireAfter(ttlMs, token);
    return token;
  }

  /** Tokens do not expire any more. */
  stop(): void {
    for (const timer of this.#expiries) timer.cancel();
  }

  #expireAfter(ttlMs: number, { secretId }: Token): void {
    const timer = this.#clock.after(ttlMs, () => {
      this.#expiries.delete(timer);
      this.#acl.remove(secretId);
    });
    this.#expiries.add(timer);
  }

  async #verified(config: JsonObject, bearerToken: string): Promise<JWTPayload> {
    if (bearerToken === "") throw new LoginRefusal("bearer_token", "missing jwt");
    const [issuer, audience] = [textAt(config, "BoundIssuer"), textsAt(config, "BoundAudiences")];
    let fault = "no known key successfully validated the token signature";
    for (const pem of textsAt(config, "JWTValidationPubKeys")) {
      try {
        const { payload } = await jwtVerify(bearerToken, createPublicKey(pem), {
          ...issuer === "" ? {} : { issuer },
          ...audience.length === 0 ? {} : { audience: [...audience] },
          clockTolerance: LEEWAY_S,
          currentDate: new Date(this.#clock.now()),
        });
        return payload;
      } catch (error) {
        if (error instanceof errors.JWSSignatureVerificationFailed) continue;
        fault = faultOf(error);
        break;
      }
    }
    throw new LoginRefusal("bearer_token", `error validating token: ${fault}`);
  }
}

const CLAIMS: Readonly<Record<string, string>> = {
  iss: "invalid issuer (iss) claim",
  aud: "invalid audience (aud) claim",
  nbf: "token is not valid yet",
};

function faultOf(error: unknown): string {
  if (error instanceof errors.JWTExpired) return "token is expired";
  if (error instanceof errors.JWTClaimValidationFailed) return CLAIMS[error.claim] ?? error.claim;
  return error instanceof Error ? error.message : "malformed token";
}

function filledIn(name: string, value: JsonObject): string {
  return name.replace(/\$\{value\.(\w+)\}/g, (_all, key: string) => textAt(value, key));
}
