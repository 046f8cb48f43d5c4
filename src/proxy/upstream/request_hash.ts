/**
 * What of a request keeps it with one endpoint, as a route's hash policies say and as Envoy reads them:
 * where none of them finds anything there is no hash, and balancing picks by chance. Requests of routes
 * without policies are not looked at.
 *
 * @module
 */

import { hashText } from "../../balance/mod.ts";
import { canonicalIpText } from "../../base/mod.ts";
import type { HashPolicy } from "../../chain/mod.ts";
import { FIELD, fieldOf, type Fields, type RequestHead } from "../../http/mod.ts";
import { hashOfCaller } from "./target_group.ts";

/** Sees to it that the caller is given a cookie: the value of a `Set-Cookie`. */
export interface CookieSink {
  takeCookie(cookie: string): void;
}

export class RequestHash {
  readonly #policies: readonly HashPolicy[];

  constructor(policies: readonly HashPolicy[]) {
    this.#policies = policies;
  }

  /** `remote`: the caller's address with its port. `undefined`: nothing was there to hash. */
  of(request: RequestHead, remote: string, taker: CookieSink): number | undefined {
    const asked = { request, remote, taker };
    let hash: number | undefined;
    for (const policy of this.#policies) {
      const found = hashBy(policy, asked);
      // Turned before the next is mixed in, so that two of the same value do not cancel each other out.
      if (found !== undefined) hash = ((((hash ?? 0) << 1) | ((hash ?? 0) >>> 31)) ^ found) >>> 0;
      if (policy.terminal && hash !== undefined) break;
    }
    return hash;
  }
}

interface AskedFor {
  readonly request: RequestHead;
  readonly remote: string;
  readonly taker: CookieSink;
}

function hashBy(policy: HashPolicy, { request, remote, taker }: AskedFor): number | undefined {
  switch (policy.kind) {
    case "header":
      return hashOfHeader(request, policy.name);
    case "query":
      return hashIfThere(queryValue(request.path, policy.name));
    case "source":
      return hashOfSource(request.fields, remote);
    case "cookie": {
      const value = cookieValue(request.fields, policy.name);
      if (value !== "") return hashText(value);
      if (!policy.made) return undefined;
      const made = madeValue(request.fields, remote);
      const { maxAgeSeconds, path } = policy.made;
      taker.takeCookie(
        `${policy.name}="${made}"${maxAgeSeconds > 0 ? `; Max-Age=${maxAgeSeconds}` : ""}` +
          `${path === "" ? "" : `; Path=${path}`}; HttpOnly`,
      );
      return hashText(made);
    }
  }
}

function hashIfThere(value: string | undefined): number | undefined {
  return value === undefined ? undefined : hashText(value);
}

/** Of all values, in whichever order they stand. An empty one is a value. */
function hashOfHeader(request: RequestHead, name: string): number | undefined {
  switch (name) {
    case ":authority":
    case "host":
      return hashText(request.authority);
    case ":path":
      return hashText(request.path);
    case ":method":
      return hashText(request.method);
    case ":scheme":
      return hashText(request.scheme);
  }
  const { fields } = request;
  let sum: number | undefined;
  for (let i = 0; i < fields.length; i += FIELD) {
    if (fields[i] === name) sum = ((sum ?? 0) + hashText(fields[i + 1] ?? "")) >>> 0;
  }
  return sum;
}

/** Of the first parameter of that name, as it is written; `""` where it has no `=`. */
function queryValue(path: string, name: string): string | undefined {
  let at = path.indexOf("?");
  while (at >= 0) {
    const begin = at + 1;
    at = path.indexOf("&", begin);
    const end = at < 0 ? path.length : at;
    if (!path.startsWith(name, begin)) continue;
    const after = begin + name.length;
    if (after === end) return "";
    if (after < end && path[after] === "=") return path.slice(after + 1, end);
  }
  return undefined;
}

/** Of the first cookie of that name, without quotes around it; `""`: there is none, or it is empty. */
function cookieValue(fields: Fields, name: string): string {
  for (let i = 0; i < fields.length; i += FIELD) {
    if (fields[i] !== "cookie") continue;
    const text = fields[i + 1] ?? "";
    for (let begin = 0; begin < text.length;) {
      while (text[begin] === " ") begin++;
      const semicolon = text.indexOf(";", begin);
      const end = semicolon < 0 ? text.length : semicolon;
      if (text.startsWith(name, begin) && text[begin + name.length] === "=") {
        const value = text.slice(begin + name.length + 1, end);
        return value.length >= 2 && value.startsWith('"') && value.endsWith('"')
          ? value.slice(1, -1)
          : value;
      }
      begin = end + 1;
    }
  }
  return "";
}

/**
 * Of the caller's address, which is the last that `X-Forwarded-For` names if it names one: a sidecar's
 * own caller is the application beside it, whoever that asks for. A unix socket has none.
 */
function hashOfSource(fields: Fields, remote: string): number | undefined {
  let forwarded: string | undefined;
  for (let i = 0; i < fields.length; i += FIELD) {
    if (fields[i] === "x-forwarded-for") forwarded = fields[i + 1];
  }
  if (forwarded !== undefined) {
    const address = forwarded.slice(forwarded.lastIndexOf(",") + 1).trim();
    if (canonicalIpText(address) !== undefined) return hashText(address);
  }
  return remote.includes(":") ? hashOfCaller(remote) : undefined;
}

/**
 * Sixteen hexadecimal digits: the same for all requests of one connection, so that those under way
 * together are given the same. All callers at a unix socket have one address, so there each request
 * counts for itself.
 */
function madeValue(fields: Fields, remote: string): string {
  const of = remote.includes(":") ? remote : fieldOf(fields, "x-request-id") ?? "";
  return hex(hashText(of)) + hex(hashText(of, MADE_SEED));
}

const MADE_SEED = 0x5bd1e995;

function hex(hash: number): string {
  return hash.toString(16).padStart(8, "0");
}
