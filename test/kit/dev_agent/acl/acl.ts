/**
 * Tokens and their rights: service identities and plain rules, enough for every refusal that a proxy can
 * meet. Without options ACLs are off and everything is allowed.
 *
 * @module
 */

import { randomUUID } from "node:crypto";
import type { JsonObject } from "../../../../src/dev/json.ts";
import { HttpRefusal } from "../../../../src/dev/refusal.ts";
import { parseRules, type Rule } from "./acl_rules.ts";

interface TokenOptions {
  readonly secretId?: string;
  readonly accessorId?: string;
  /** May do everything. */
  readonly management?: boolean;
  /** Service names; each gives what Consul's service identity gives. */
  readonly serviceIdentities?: readonly string[];
  /** Absent: the token was not made by a login. */
  readonly login?: Login;
}

/** The login that made a token. */
export interface Login {
  readonly method: string;
  readonly description: string;
  readonly createdMs: number;
  /** Absent: the token lasts until the logout. */
  readonly expiresMs?: number;
}

export interface AclOptions {
  /** `false`: configured and not in force, as Consul has it by default. */
  readonly enabled?: boolean;
  readonly defaultPolicy: "allow" | "deny";
  readonly tokens?: readonly TokenOptions[];
}

export interface Token {
  readonly secretId: string;
  readonly accessorId: string;
  readonly management: boolean;
  readonly serviceIdentities: readonly string[];
  readonly rules: readonly Rule[];
  readonly login: Login | undefined;
}

export type Access = "read" | "write";

/** The rights of one request's token. */
export interface Authorizer {
  readonly hasToken: boolean;
  allows(resource: string, access: Access, segment: string): boolean;
  /** Throws 403 with the text that names the missing right. */
  require(resource: string, access: Access, segment: string): void;
}

const EVERYTHING: Authorizer = { hasToken: false, allows: () => true, require: () => {} };

export const TOKEN_UNKNOWN = "ACL not found";

export class Acl {
  readonly #options: AclOptions | undefined;
  readonly #tokens = new Map<string, Token>();
  readonly #onRemoved = new Set<() => void>();
  readonly #policies = new Map<string, readonly Rule[]>();

  constructor(options: AclOptions | undefined) {
    this.#options = options;
    for (const token of options?.tokens ?? []) this.add(token);
  }

  get enabled(): boolean {
    return this.#options !== undefined && this.#options.enabled !== false;
  }

  get defaultPolicy(): "allow" | "deny" {
    return this.#options?.defaultPolicy ?? "allow";
  }

  /** Adds a token, or replaces the one with that secret; returns it. */
  add(options: TokenOptions, policies: readonly string[] = []): Token {
    const { serviceIdentities = [] } = options;
    const token: Token = {
      secretId: options.secretId ?? randomUUID(),
      accessorId: options.accessorId ?? randomUUID(),
      management: options.management === true,
      serviceIdentities,
      rules: [
        ...policies.flatMap((name) => this.#policies.get(name) ?? []),
        ...serviceIdentities.flatMap(identityRules),
      ],
      login: options.login,
    };
    this.#tokens.set(token.secretId, token);
    return token;
  }

  addPolicy(name: string, rules: string): void {
    this.#policies.set(name, parseRules(rules));
  }

  /** Removes a token by secret or accessor. */
  remove(id: string): void {
    for (const [secret, token] of this.#tokens) {
      if (secret === id || token.accessorId === id) this.#tokens.delete(secret);
    }
    for (const fn of [...this.#onRemoved]) fn();
  }

  /** Removes a token that a login made; 403 for any other, nothing for an unknown one. */
  logout(secret: string): void {
    const token = this.find(secret);
    if (!token) return;
    if (!token.login) {
      throw new HttpRefusal(403, "Permission denied: token wasn't created via login");
    }
    this.remove(secret);
  }

  /** `fn` is called after each removal. Returns how to stop. */
  onRemoved(fn: () => void): () => void {
    this.#onRemoved.add(fn);
    return () => void this.#onRemoved.delete(fn);
  }

  find(secret: string): Token | undefined {
    return this.#tokens.get(secret);
  }

  /** The rights of a secret; undefined: no token has it. */
  authorizer(secret: string): Authorizer | undefined {
    if (!this.enabled) return EVERYTHING;
    const token = secret === "" ? undefined : this.#tokens.get(secret);
    if (secret !== "" && !token) return undefined;
    const allows = (resource: string, access: Access, segment: string) =>
      token?.management === true ||
      decide(token?.rules ?? [], { resource, access, segment, fallback: this.defaultPolicy });
    return {
      hasToken: token !== undefined,
      allows,
      require(resource, access, segment) {
        if (allows(resource, access, segment)) return;
        throw new HttpRefusal(403, lacks(token, `${resource}:${access}`, segment));
      },
    };
  }
}

/** As `/v1/acl/token/self` shows it. */
export function tokenJson({ secretId, accessorId, serviceIdentities, login }: Token): JsonObject {
  return {
    AccessorID: accessorId,
    SecretID: secretId,
    Description: login?.description ?? "",
    ...serviceIdentities.length > 0
      ? { ServiceIdentities: serviceIdentities.map((name) => ({ ServiceName: name })) }
      : {},
    Local: login !== undefined,
    ...login ? { AuthMethod: login.method } : {},
    ...login?.expiresMs === undefined ? {} : { ExpirationTime: isoOf(login.expiresMs) },
    CreateTime: login ? isoOf(login.createdMs) : "2026-01-01T00:00:00Z",
    Hash: "",
    CreateIndex: 1,
    ModifyIndex: 1,
  };
}

function isoOf(ms: number): string {
  return new Date(ms).toISOString();
}

function lacks(token: Token | undefined, right: string, segment: string): string {
  const on = segment === "" ? "" : ` on "${segment}"`;
  return token
    ? `Permission denied: token with AccessorID '${token.accessorId}' lacks permission '${right}'${on}`
    : `Permission denied: anonymous token lacks permission '${right}'${on}. The anonymous token is used implicitly when a request does not specify a token.`;
}

function identityRules(service: string): readonly Rule[] {
  const rule = (resource: string, policy: "read" | "write", segment: string): Rule => ({
    resource,
    prefix: segment === "",
    segment,
    policy,
    intentions: "",
  });
  return [
    rule("service", "write", service),
    rule("service", "write", `${service}-sidecar-proxy`),
    rule("service", "read", ""),
    rule("node", "read", ""),
  ];
}

interface Question {
  readonly resource: string;
  readonly access: Access;
  readonly segment: string;
  readonly fallback: "allow" | "deny";
}

function decide(rules: readonly Rule[], question: Question): boolean {
  const { resource, access, segment, fallback } = question;
  const kind = resource === "intention" ? "service" : resource;
  const found = rules.filter((rule) => rule.resource === kind);
  // Any service will do: none has that name.
  const isAny = kind === "service" && segment === "*";
  if (isAny && access === (resource === "intention" ? "read" : "write")) {
    return found.some((rule) => granted(rule, resource, access)) || fallback === "allow";
  }
  const exact = found.filter((rule) => !rule.prefix && rule.segment === segment);
  const prefixes = found.filter((rule) => rule.prefix && segment.startsWith(rule.segment));
  const longest = Math.max(-1, ...prefixes.map((rule) => rule.segment.length));
  const deciding = exact.length > 0
    ? exact
    : prefixes.filter((rule) => rule.segment.length === longest);
  if (deciding.length === 0) return fallback === "allow";
  return deciding.some((rule) => granted(rule, resource, access)) &&
    !deciding.some((rule) => rule.policy === "deny");
}

function granted(rule: Rule, resource: string, access: Access): boolean {
  if (resource === "intention") {
    // Reading intentions comes with any right on the service; writing them only when given.
    if (rule.intentions !== "") return rule.intentions === "write" || rule.intentions === access;
    return access === "read" && (rule.policy === "read" || rule.policy === "write");
  }
  return rule.policy === "write" || rule.policy === access;
}
