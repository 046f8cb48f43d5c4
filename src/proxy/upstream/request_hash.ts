/** The hash of a request by a route's hash policies, with the semantics of Envoy. @module */

import { hashText } from "../../balance/mod.ts";
import { canonicalIpText } from "../../base/mod.ts";
import type { HashPolicy } from "../../chain/mod.ts";
import { FIELD, fieldOf, type Fields, type RequestHead } from "../../http/mod.ts";
import { hashOfCaller } from "./target_group.ts";

/** Receives the value of a `Set-Cookie` field for the caller. */
export interface CookieSink {
  takeCookie(cookie: string): void;
}

interface HashInput {
  readonly request: RequestHead;
  /** The caller's address and port. */
  readonly remote: string;
  readonly cookies: CookieSink;
}

/** `undefined`: no policy found a value. */
export function hashOfRequest(
  policies: readonly HashPolicy[],
  input: HashInput,
): number | undefined {
  let hash: number | undefined;
  for (const policy of policies) {
    const found = hashBy(policy, input);
    // Rotated before the next is mixed in, so that two equal values do not cancel each other out.
    if (found !== undefined) hash = ((((hash ?? 0) << 1) | ((hash ?? 0) >>> 31)) ^ found) >>> 0;
    if (policy.terminal && hash !== undefined) break;
  }
  return hash;
}

function hashBy(policy: HashPolicy, { request, remote, cookies }: HashInput): number | undefined {
  switch (policy.kind) {
    case "header":
      return hashOfHeader(request, policy.name);
    case "query": {
      const value = queryValue(request.path, policy.name);
      return value === undefined ? undefined : hashText(value);
    }
    case "source":
      return hashOfSource(request.fields, remote);
    case "cookie": {
      const value = cookieValue(request.fields, policy.name);
      if (value !== "") return hashText(value);
      if (!policy.made) return undefined;
      const made = madeValue(request.fields, remote);
      const { maxAgeSeconds, path } = policy.made;
      cookies.takeCookie(
        `${policy.name}="${made}"${maxAgeSeconds > 0 ? `; Max-Age=${maxAgeSeconds}` : ""}` +
          `${path === "" ? "" : `; Path=${path}`}; HttpOnly`,
      );
      return hashText(made);
    }
  }
}

/** The hash of all values of a field, in any order. An empty value counts. */
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

/** The raw value of the first parameter of that name; `""` if it has no `=`. */
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

/** The unquoted value of the first cookie of that name; `""`: it is absent or empty. */
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
 * The caller's address: the last one in `X-Forwarded-For`, if any, since the direct caller of a sidecar is the
 * application beside it. A unix socket has no address.
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
 * Sixteen hexadecimal digits, the same for all requests of one connection, so that concurrent requests get the
 * same cookie. All callers at a unix socket have one address, so there each request gets its own.
 */
function madeValue(fields: Fields, remote: string): string {
  const of = remote.includes(":") ? remote : fieldOf(fields, "x-request-id") ?? "";
  const hex = (hash: number) => hash.toString(16).padStart(8, "0");
  return hex(hashText(of)) + hex(hashText(of, MADE_SEED));
}

const MADE_SEED = 0x5bd1e995;
