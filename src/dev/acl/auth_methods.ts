/**
 * Auth methods of type `jwt`, their binding rules, and the tokens that logins give: for a while, with the
 * service identities that the rules name.
 *
 * @module
 */

import { createPublicKey } from "node:crypto";
import { type Clock, messageOf, parseDurationMs, type Timer } from "../../base/mod.ts";
import { matchesBexpr, parseBexpr } from "../http/bexpr.ts";
import type { JsonObject } from "../http/decode.ts";
import { objectAt, textAt, textsAt } from "../http/fields.ts";
import { Refusal } from "../http/refusal.ts";
import type { Acl, Token } from "./acl.ts";
import { verifyJwt } from "./jwt.ts";

export interface LoginRequest {
  readonly method: string;
  readonly bearerToken: string;
  readonly meta: JsonObject;
}

/** Why nobody is let in: by no such method, with no such bearer token, or without a rule that binds it. */
export class LoginRefusal extends Error {
  readonly kind: "no_method" | "bearer_token" | "unbound";

  constructor(kind: LoginRefusal["kind"], text: string) {
    super(text);
    this.name = "LoginRefusal";
    this.kind = kind;
  }
}

export class AuthMethods {
  readonly #acl: Acl;
  readonly #clock: Clock;
  readonly #methods = new Map<string, JsonObject>();
  readonly #rules: JsonObject[] = [];
  readonly #ends = new Set<Timer>();

  constructor(acl: Acl, clock: Clock) {
    this.#acl = acl;
    this.#clock = clock;
  }

  /** The body of `PUT /v1/acl/auth-method`. */
  put(method: JsonObject): void {
    const type = textAt(method, "Type");
    if (type !== "jwt") {
      throw new Refusal(
        500,
        `auth methods of type "${type}" are not there on the embedded servers`,
      );
    }
    this.#methods.set(textAt(method, "Name"), method);
  }

  /** The body of `PUT /v1/acl/binding-rule`. */
  bind(rule: JsonObject): void {
    const type = textAt(rule, "BindType");
    if (type !== "service") {
      throw new Refusal(500, `rules that bind a "${type}" are not there on the embedded servers`);
    }
    this.#rules.push(rule);
  }

  /** Throws {@link LoginRefusal}. */
  login({ method: name, bearerToken, meta }: LoginRequest): Token {
    const method = this.#methods.get(name);
    if (!method) {
      throw new LoginRefusal("no_method", `auth method ${JSON.stringify(name)} not found`);
    }
    const known = this.#verified(objectAt(method, "Config"), bearerToken);
    const serviceIdentities = this.#rules
      .filter((rule) => textAt(rule, "AuthMethod") === name && selects(rule, known))
      .map((rule) => filledIn(textAt(rule, "BindName"), known));
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
        ...ttlMs > 0 && { expiresMs: nowMs + ttlMs },
      },
    });
    if (ttlMs > 0) this.#endAfter(ttlMs, token);
    return token;
  }

  /** Tokens do not end by themselves any more. */
  stop(): void {
    for (const timer of this.#ends) timer.cancel();
  }

  #endAfter(ttlMs: number, { secretId }: Token): void {
    const timer = this.#clock.after(ttlMs, () => {
      this.#ends.delete(timer);
      this.#acl.remove(secretId);
    });
    this.#ends.add(timer);
  }

  /** What rules can speak of: the mapped claims, as texts. */
  #verified(config: JsonObject, bearerToken: string): JsonObject {
    let claims: JsonObject;
    try {
      claims = verifyJwt(bearerToken, {
        keys: textsAt(config, "JWTValidationPubKeys").map((pem) => createPublicKey(pem)),
        issuer: textAt(config, "BoundIssuer"),
        audiences: textsAt(config, "BoundAudiences"),
        nowMs: this.#clock.now(),
      });
    } catch (error) {
      throw new LoginRefusal("bearer_token", messageOf(error));
    }
    const mapped = Object.entries(objectAt(config, "ClaimMappings"))
      .map(([claim, name]) => [String(name), String(claims[claim] ?? "")]);
    return { value: Object.fromEntries(mapped) };
  }
}

function selects(rule: JsonObject, known: JsonObject): boolean {
  const selector = textAt(rule, "Selector");
  return selector === "" || matchesBexpr(parseBexpr(selector), known);
}

function filledIn(name: string, known: JsonObject): string {
  const value = objectAt(known, "value");
  return name.replace(/\$\{value\.(\w+)\}/g, (_all, key: string) => textAt(value, key));
}
