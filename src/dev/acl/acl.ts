/**
 * Tokens and what they may do: service identities and plain rules, enough to meet every refusal that a
 * proxy can meet. Off unless asked for; then everything is allowed and nobody asks for a token.
 *
 * @module
 */

import { randomUUID } from "node:crypto";
import { parseRules, type Rule } from "./acl_rules.ts";
import type { JsonObject } from "../http/decode.ts";
import { Refusal } from "../http/refusal.ts";

export interface TokenOptions {
  readonly secretId?: string;
  readonly accessorId?: string;
  /** May do everything. */
  readonly management?: boolean;
  /** Service names; each gives what Consul's service identity gives. */
  readonly serviceIdentities?: readonly string[];
  /** Absent: it was not given to who logged in. */
  readonly login?: Login;
}

/** How a token came about that nobody made by hand. */
export interface Login {
  readonly method: string;
  readonly description: string;
  readonly createdMs: number;
  /** Absent: it lasts until the logout. */
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

/** What the sender of one request may do. */
export interface Authorizer {
  readonly hasToken: boolean;
  allows(resource: string, access: Access, segment: string): boolean;
  /** 403 with the text that names the missing right. */
  require(resource: string, access: Access, segment: string): void;
}

const EVERYTHING: Authorizer = { hasToken: false, allows: () => true, require: () => {} };

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

  /** As configured, also where ACLs are not enabled: what Envoy goes by. */
  get defaultPolicy(): "allow" | "deny" {
    return this.#options?.defaultPolicy ?? "allow";
  }

  /** Whether authorize and intentions/check allow what no intention covers. */
  get allowsByDefault(): boolean {
    return !this.enabled || this.defaultPolicy === "allow";
  }

  /** Adds a token, or replaces the one with that secret; returns it. */
  add(options: TokenOptions, policies: readonly string[] = []): Token {
    const rules = policies.flatMap((name) => this.#policies.get(name) ?? []);
    const token: Token = {
      secretId: options.secretId ?? randomUUID(),
      accessorId: options.accessorId ?? randomUUID(),
      management: options.management === true,
      serviceIdentities: options.serviceIdentities ?? [],
      rules: [
        ...rules,
        ...(options.serviceIdentities ?? []).flatMap(identityRules),
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

  /** Removes a token that was given to who logged in; 403 for others, nothing for none. */
  logout(secret: string): void {
    const token = this.find(secret);
    if (!token) return;
    if (!token.login) throw new Refusal(403, "Permission denied: token wasn't created via login");
    this.remove(secret);
  }

  /** `fn` is called whenever a token may be no more. Returns how to stop. */
  onRemoved(fn: () => void): () => void {
    this.#onRemoved.add(fn);
    return () => void this.#onRemoved.delete(fn);
  }

  find(secret: string): Token | undefined {
    return this.#tokens.get(secret);
  }

  /** What the bearer may do; `undefined` for a token that nobody knows. */
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
        throw new Refusal(403, lacks(token, `${resource}:${access}`, segment));
      },
    };
  }
}

export const TOKEN_UNKNOWN = "ACL not found";

/** As `/v1/acl/token/self`. */
export function tokenJson(token: Token): JsonObject {
  return {
    AccessorID: token.accessorId,
    SecretID: token.secretId,
    Description: token.login?.description ?? "",
    ...token.serviceIdentities.length > 0
      ? { ServiceIdentities: token.serviceIdentities.map((name) => ({ ServiceName: name })) }
      : {},
    Local: token.login !== undefined,
    ...token.login && {
      AuthMethod: token.login.method,
      ...token.login.expiresMs !== undefined && { ExpirationTime: isoOf(token.login.expiresMs) },
    },
    CreateTime: token.login ? isoOf(token.login.createdMs) : "2026-01-01T00:00:00Z",
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
  return [
    { resource: "service", prefix: false, segment: service, policy: "write", intentions: "" },
    {
      resource: "service",
      prefix: false,
      segment: `${service}-sidecar-proxy`,
      policy: "write",
      intentions: "",
    },
    { resource: "service", prefix: true, segment: "", policy: "read", intentions: "" },
    { resource: "node", prefix: true, segment: "", policy: "read", intentions: "" },
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
  // Some service, whichever: no service has that name.
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
