/**
 * Normalizes the path of a request, so that the path which is authorized and routed is the path which the
 * application reads. Order and meaning are Envoy's: escaped slashes, then dot segments and escapes (RFC
 * 3986 6.2.2), then repeated slashes; the query is never changed.
 *
 * @module
 */

import { FIELD, type Fields } from "./head.ts";

/** Path and field name rules of a listener; Consul: `mesh` entry, `HTTP.Incoming.RequestNormalization`. */
export interface PathRules {
  /** Resolves dot segments, turns `\` into `/`, and escapes exactly the characters that need it. */
  readonly normalize: boolean;
  readonly mergeSlashes: boolean;
  /** Treatment of `%2F` and `%5C`; `redirect`: the client is redirected to the unescaped path. */
  readonly escapedSlashes: "keep" | "reject" | "unescape" | "redirect";
  /** Treatment of fields with `_` in their name, which many applications read as `-`. */
  readonly underscores: "allow" | "reject" | "drop";
}

/** The rules that Consul sets on Envoy's inbound listeners. */
export const DEFAULT_PATH_RULES: PathRules = {
  normalize: true,
  mergeSlashes: false,
  escapedSlashes: "keep",
  underscores: "allow",
};

/** The refusal or redirect for a path that is not sent on. */
export type PathRefusal =
  | { readonly status: 400 }
  /** `location`: path and query of the redirect. */
  | { readonly status: 307; readonly location: string };

const INVALID: PathRefusal = { status: 400 };
/** Characters that HTTP/2 can carry and HTTP/1.1 cannot, unless they are escaped. */
const UNSENDABLE = /[\x80-\uffff]/;
/** A location that browsers read as one on another host. */
const OTHER_HOST = /^\/[/\\]/;

// Classes of path characters. `ESCAPED` is written as `%XX`; `UNRESERVED` never is.
const PLAIN = 0;
const UNRESERVED = 1;
const ESCAPED = 2;
const SPECIAL = 3;

const KINDS = kindsOf();
const SLASH = 0x2f;
const BACKSLASH = 0x5c;
const PERCENT = 0x25;
const DOT = 0x2e;
const SEMICOLON = 0x3b;
const QUERY = 0x3f;

/** The normalized path: the same string when nothing changes. */
export function normalizePath(path: string, rules: PathRules): string | PathRefusal {
  if (path.charCodeAt(0) !== SLASH) return path === "*" || path === "" ? path : INVALID;
  // Clients never send a fragment; a `#` is an attempt to have two readers end the path in two places.
  if (path.includes("#")) return INVALID;
  if (isNormal(path, rules)) return UNSENDABLE.test(path) ? INVALID : path;
  const end = endOfPath(path);
  const query = path.slice(end);
  let result = path.slice(0, end);
  let unescaped = false;
  if (rules.escapedSlashes !== "keep") {
    const bare = unescapeSlashes(result);
    unescaped = bare !== result;
    if (unescaped && rules.escapedSlashes === "reject") return INVALID;
    result = bare;
  }
  if (rules.normalize) {
    const normal = normalizeSegments(result);
    if (normal === undefined) return INVALID;
    result = normal;
  }
  if (rules.mergeSlashes) result = mergeSlashes(result);
  result += query;
  if (UNSENDABLE.test(result)) return INVALID;
  if (!unescaped || rules.escapedSlashes !== "redirect") return result;
  return { status: 307, location: OTHER_HOST.test(result) ? `/.${result}` : result };
}

export function pathWithoutQuery(path: string): string {
  return path.slice(0, endOfPath(path));
}

/** Applies the rule for names with `_`. False: the request is refused with 400. */
export function ruleUnderscores(fields: Fields, rule: PathRules["underscores"]): boolean {
  if (rule === "allow") return true;
  for (let i = fields.length - FIELD; i >= 0; i -= FIELD) {
    if (!fields[i]?.includes("_")) continue;
    if (rule === "reject") return false;
    fields.splice(i, FIELD);
  }
  return true;
}

/** Whether no rule can change this path: true for nearly all; false does not mean a change. */
function isNormal(path: string, rules: PathRules): boolean {
  let before = 0;
  for (let i = 0; i < path.length; i++) {
    const code = path.charCodeAt(i);
    if (code === QUERY) return true;
    switch (KINDS[code]) {
      case PLAIN:
      case UNRESERVED:
        break;
      case SPECIAL:
        if (code === SLASH) {
          if (before === SLASH && rules.mergeSlashes) return false;
        } else if (code !== DOT) {
          return false;
        } else if (before === SLASH && rules.normalize && mayEndDots(path, i + 1)) {
          return false;
        }
        break;
      default:
        if (rules.normalize) return false;
    }
    before = code;
  }
  return true;
}

/** Whether a `.` at the beginning of a segment may be part of a dot segment, given what follows at `at`. */
function mayEndDots(path: string, at: number): boolean {
  if (at >= path.length) return true;
  const code = path.charCodeAt(at);
  return code === DOT || code === SLASH || code === BACKSLASH || code === PERCENT ||
    code === SEMICOLON || code === QUERY;
}

function endOfPath(path: string): number {
  const query = path.indexOf("?");
  return query < 0 ? path.length : query;
}

/** Decodes `%2F` and `%5C`, once. */
function unescapeSlashes(path: string): string {
  let result = "";
  let from = 0;
  for (let at = path.indexOf("%"); at >= 0; at = path.indexOf("%", at + 1)) {
    const code = escapedAt(path, at);
    if (code !== SLASH && code !== BACKSLASH) continue;
    result += path.slice(from, at) + String.fromCharCode(code);
    from = at + 3;
  }
  return result + path.slice(from);
}

/** Undefined: the path has a NUL or a character that is not an octet. */
function normalizeSegments(path: string): string | undefined {
  const segments: string[] = [];
  let from = 1;
  for (let at = 1; at <= path.length; at++) {
    const code = path.charCodeAt(at);
    const last = at === path.length;
    if (!last && code !== SLASH && code !== BACKSLASH) continue;
    const segment = normalizeSegment(path, from, at);
    from = at + 1;
    if (segment === undefined) return undefined;
    // Applications that know path parameters drop them, and only the dots remain.
    const dots = /^(\.\.?)(?:;|$)/.exec(segment)?.[1];
    if (dots === "..") segments.pop();
    if (dots === undefined) segments.push(segment);
    else if (last) segments.push("");
  }
  return `/${segments.join("/")}`;
}

function normalizeSegment(path: string, from: number, to: number): string | undefined {
  let result = "";
  for (let i = from; i < to; i++) {
    const code = path.charCodeAt(i);
    if (code !== PERCENT) {
      if (code === 0 || code > 0xff) return undefined;
      result += KINDS[code] === ESCAPED ? escape(code) : path[i];
      continue;
    }
    const escaped = i + 2 < to ? escapedAt(path, i) : -1;
    if (escaped === 0) return undefined;
    // A lone `%` stays, as with Envoy.
    if (escaped < 0) result += "%";
    else {
      const isUnreserved = KINDS[escaped] === UNRESERVED || escaped === DOT;
      const plain = isUnreserved && !wouldEscape(result, escaped);
      result += plain ? String.fromCharCode(escaped) : path.slice(i, i + 3);
      i += 2;
    }
  }
  return result;
}

/** Whether `code` would complete an escape after a lone `%`: `%%32e` must not become `%2e`. */
function wouldEscape(result: string, code: number): boolean {
  if (hexOf(code) < 0) return false;
  const end = result.length;
  if (result.charCodeAt(end - 1) === PERCENT) return true;
  return result.charCodeAt(end - 2) === PERCENT && hexOf(result.charCodeAt(end - 1)) >= 0;
}

function mergeSlashes(path: string): string {
  let result = "";
  let from = 0;
  for (let at = path.indexOf("//"); at >= 0; at = path.indexOf("//", from)) {
    result += path.slice(from, at + 1);
    from = at + 1;
    while (path.charCodeAt(from) === SLASH) from++;
  }
  return result + path.slice(from);
}

/** The octet that the escape `%XX` at `at` encodes; -1: there is no escape at `at`. */
function escapedAt(path: string, at: number): number {
  const high = hexOf(path.charCodeAt(at + 1));
  const low = hexOf(path.charCodeAt(at + 2));
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/** Value of a hexadecimal digit; -1: not a digit. */
export function hexOf(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  const lower = code | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}

function escape(code: number): string {
  return `%${code < 0x10 ? "0" : ""}${code.toString(16).toUpperCase()}`;
}

function kindsOf(): Uint8Array {
  const kinds = new Uint8Array(256).fill(ESCAPED);
  const set = (characters: string, kind: number) => {
    for (const character of characters) kinds[character.charCodeAt(0)] = kind;
  };
  set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_~", UNRESERVED);
  set("!$&'()*+,:;=@[]", PLAIN);
  set("./\\%", SPECIAL);
  return kinds;
}
