/**
 * The verdict of the authorization service about a request, whichever protocol it was asked by.
 *
 * @module
 */

import type { Bytes, Connection, Headers, HttpRequest } from "../../src/plugin/api.ts";

export type AuthzVerdict =
  | { readonly kind: "ok"; readonly request: Mutations; readonly response: readonly Mutation[] }
  | {
    readonly kind: "denied";
    readonly status: number;
    readonly headers: readonly Mutation[];
    readonly body: Bytes | null;
  }
  | { readonly kind: "error"; readonly code: string; readonly reason: string };

/** Mutations in order; removals come last. */
export interface Mutations {
  readonly headers: readonly Mutation[];
  readonly remove: readonly string[];
}

/**
 * `set`: replaces all fields of that name; `append`: adds a field if there is one already; `add`: adds a
 * field; `add_if_absent`; `overwrite_if_exists`.
 */
export interface Mutation {
  readonly how: "set" | "append" | "add" | "add_if_absent" | "overwrite_if_exists";
  readonly name: string;
  readonly value: string;
}

/** The request to judge. */
export interface AuthzRequest {
  readonly request: HttpRequest;
  readonly connection: Connection;
  readonly id: string;
  /** The shown part of the body; `null`: it is not shown. */
  readonly body: ShownBody | null;
  readonly signal: AbortSignal;
}

export interface ShownBody {
  readonly length: number;
  /** The shown bytes, in order. */
  readonly pieces: readonly Bytes[];
  /** The shown bytes in one piece, which replaces {@link pieces}. */
  whole(): Bytes;
  /** `bytes` hold the whole shown body and do not change; they replace {@link pieces}. */
  isIn(bytes: Bytes): void;
  /** The body is longer than the shown part. */
  readonly isPartial: boolean;
}

export type AskAuthz = (request: AuthzRequest) => Promise<AuthzVerdict>;

/** Whether the shown body is partial; a header of the caller with this name is not sent. */
export const PARTIAL_BODY = "x-envoy-auth-partial-body";

/** Limit of the body of an answer. */
export const ANSWER_LIMIT_BYTES = 64 * 1_024;

export function errorOf({ code, reason }: {
  readonly code: string;
  readonly reason: string;
}): AuthzVerdict {
  return { kind: "error", code, reason };
}

/** Throws if a field is invalid. */
export function mutated(headers: Headers, mutations: readonly Mutation[]): Headers {
  let changed = headers;
  for (const { how, name, value } of mutations) {
    const isThere = changed.get(name) !== undefined;
    if (how === "set" || how === "overwrite_if_exists" && isThere) {
      changed = changed.with({ set: { [name]: value } });
    } else if (how === "add" || isThere === (how === "append") && how !== "overwrite_if_exists") {
      changed = changed.with({ add: { [name]: value } });
    }
  }
  return changed;
}

export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
