/**
 * The one form of a request's path that is judged, matched and sent on, so that nobody means another
 * resource by it than the rule that let it through. Order and meaning are Envoy's: escaped slashes, then
 * dot segments and escapes (RFC 3986 6.2.2), then repeated slashes; the query is never touched.
 *
 * @module
 */

import { FIELD, type Fields } from "./head.ts";

/** What a listener does with paths and names; Consul: `mesh` entry, `HTTP.Incoming.RequestNormalization`. */
export interface PathRules {
  /** Dot segments, backslashes, escapes of what needs none, and the other way round. */
  readonly normalize: boolean;
  readonly mergeSlashes: boolean;
  /** What `%2F` and `%5C` mean; `redirect`: the client is sent to the path without them. */
  readonly escapedSlashes: "keep" | "reject" | "unescape" | "redirect";
  /** Fields with `_` in their name, which many applications take for `-`. */
  readonly underscores: "allow" | "reject" | "drop";
}

/** What Consul gives Envoy's inbound listeners. */
export const DEFAULT_PATH_RULES: PathRules = {
  normalize: true,
  mergeSlashes: false,
  escapedSlashes: "keep",
  underscores: "allow",
};

/** Why a path goes no further. */
export type PathRefusal =
  | { readonly status: 400 }
  /** `location`: path and query to come back with. */
  | { readonly status: 307; readonly location: string };

const INVALID: PathRefusal = { status: 400 };
/** What cannot be said by HTTP/1.1, where HTTP/2 brought it and nothing escapes it. */
const UNSENDABLE = /[\x80-\uffff]/;
/** A location that browsers take for one on another host. */
const OTHER_HOST = /^\/[/\\]/;

// What becomes of a character of a path. `ESCAPED` is written as `%XX`; `UNRESERVED` never is.
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

/** The form that counts: the same string where there is nothing to do. */
export function normalizePath(path: string, rules: PathRules): string | PathRefusal {
  if (path.charCodeAt(0) !== SLASH) return path === "*" || path === "" ? path : INVALID;
  // A fragment is never sent; whoever does hopes that two readers end the path in two places.
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

/** What comes before the first `?`. */
export function pathWithoutQuery(path: string): string {
  const query = path.indexOf("?");
  return query < 0 ? path : path.slice(0, query);
}

/** Applies the rule for names with `_`; false: the request is refused with 400. */
export function ruleUnderscores(fields: Fields, rule: PathRules["underscores"]): boolean {
  if (rule === "allow") return true;
  for (let i = fields.length - FIELD; i >= 0; i -= FIELD) {
    if (!fields[i]?.includes("_")) continue;
    if (rule === "reject") return false;
    fields.splice(i, FIELD);
  }
  return true;
}

/** Whether no rule can change this path, which is so for nearly all; may be false for one that none changes. */
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

/** Whether a `.` at the begin of a segment, with what stands at `at`, may be all of a dot segment. */
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

/** `%2F` and `%5C` as what they stand for, once. */
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

/** Undefined: there is a NUL, or what no octet is. */
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
    // Applications that know parameters of segments drop them, and are left with the dots.
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
      const plain = isUnreserved(escaped) && !wouldEscape(result, escaped);
      result += plain ? String.fromCharCode(escaped) : path.slice(i, i + 3);
      i += 2;
    }
  }
  return result;
}

/**
 * Whether `code` would make an escape of a lone `%` before it: what `%%32e` means must not become `%2e`,
 * which the next reader takes for a dot.
 */
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

/** The octet that `%XX` at `at` stands for; -1: it is no escape. */
function escapedAt(path: string, at: number): number {
  const high = hexOf(path.charCodeAt(at + 1));
  const low = hexOf(path.charCodeAt(at + 2));
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/** Value of a hexadecimal digit; -1: it is none. */
function hexOf(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  const lower = code | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}

function escape(code: number): string {
  return `%${code < 0x10 ? "0" : ""}${code.toString(16).toUpperCase()}`;
}

function isUnreserved(code: number): boolean {
  return KINDS[code] === UNRESERVED || code === DOT;
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
