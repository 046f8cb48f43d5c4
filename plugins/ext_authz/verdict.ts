/**
 * What whoever was asked said of a request, however it was asked.
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

/** In their order; what is removed is removed last. */
export interface Mutations {
  readonly headers: readonly Mutation[];
  readonly remove: readonly string[];
}

/**
 * `set`: one field in place of all of that name; `append`: one more where there is one already; `add`:
 * one more; `add_if_absent`; `overwrite_if_exists`.
 */
export interface Mutation {
  readonly how: "set" | "append" | "add" | "add_if_absent" | "overwrite_if_exists";
  readonly name: string;
  readonly value: string;
}

/** What is asked about. */
export interface AuthzRequest {
  readonly request: HttpRequest;
  readonly connection: Connection;
  readonly id: string;
  /** As far as it is shown; `null`: it is not. */
  readonly body: ShownBody | null;
  readonly signal: AbortSignal;
}

export interface ShownBody {
  readonly length: number;
  /** All of it, one after the other. */
  readonly pieces: readonly Bytes[];
  /** In one piece, which takes the place of the others. */
  whole(): Bytes;
  /** These bytes, which nobody changes, are all of it, too: they take the place of its pieces. */
  isIn(bytes: Bytes): void;
  /** There is more of it. */
  readonly isPartial: boolean;
}

export type AskAuthz = (asked: AuthzRequest) => Promise<AuthzVerdict>;

/** Says whether some of the body is missing; a caller's own is not told. */
export const PARTIAL_BODY = "x-envoy-auth-partial-body";

/** Bytes of an answer's body. */
export const ANSWER_LIMIT_BYTES = 64 * 1_024;

export function errorOf({ code, reason }: {
  readonly code: string;
  readonly reason: string;
}): AuthzVerdict {
  return { kind: "error", code, reason };
}

/** Throws where a field is not lawful. */
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
