/**
 * The rules of RFC 9111 and RFC 5861 for one response: whether a shared cache may store it, for how long it is
 * fresh, and what a request demands. Pure functions of header fields.
 *
 * @module
 */

import type { Headers } from "../../src/plugin/api.ts";

/** Names in lower case; a directive that is there twice has its strictest number. */
export type Directives = ReadonlyMap<string, string>;

const DIRECTIVE =
  /([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:=(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*)))?[^,]*(?:,|$)/g;
const SECONDS = /^\d{1,10}$/;
/** Longer times count as this one. */
const MAX_SECONDS = 31_536_000;

export function directivesOf(values: readonly string[]): Directives {
  const all = new Map<string, string>();
  for (const [, name = "", quoted, plain = ""] of values.join(",").matchAll(DIRECTIVE)) {
    const key = name.toLowerCase();
    const value = quoted ?? plain;
    const other = all.get(key);
    // The smaller of two values counts; one that is no number counts as 0.
    const isStricter = other === undefined || (secondsIn(value) ?? 0) < (secondsIn(other) ?? 0);
    if (isStricter) all.set(key, value);
  }
  return all;
}

function secondsIn(value: string | undefined): number | undefined {
  if (value === undefined || !SECONDS.test(value)) return undefined;
  return Math.min(Number(value), MAX_SECONDS);
}

/** A directive without a valid number counts as 0; `undefined`: it is absent. */
export function secondsOf(directives: Directives, name: string): number | undefined {
  const value = directives.get(name);
  return value === undefined ? undefined : secondsIn(value) ?? 0;
}

/** Statuses that say something about the resource, and not about the request that asked for it. */
const STORED_STATUSES: readonly number[] = [200, 203, 204, 300, 301, 308, 404, 410];

export interface Storable {
  /** Seconds; 0: it is validated before each use. */
  readonly freshFor: number;
  /** Seconds for which it may be served while another request validates it. */
  readonly staleFor: number;
  /** The age at its arrival, in seconds. */
  readonly age: number;
  /** All callers may share it, also those with credentials. */
  readonly isPublic: boolean;
  /** Names of request fields that select it, in lower case. */
  readonly vary: readonly string[];
}

const MAX_VARY = 16;
const FIELD_NAME = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;

/** `undefined`: the response is not stored. `hasCredentials`: of the request. */
export function storable(
  { status, headers }: { readonly status: number; readonly headers: Headers },
  { hasCredentials, nowMs }: { readonly hasCredentials: boolean; readonly nowMs: number },
): Storable | undefined {
  if (!STORED_STATUSES.includes(status)) return undefined;
  const directives = directivesOf(headers.all("cache-control"));
  if (directives.has("no-store") || directives.has("private")) return undefined;
  // A cookie is for one caller; a trailer is not stored.
  for (const name of ["set-cookie", "content-range", "trailer"]) {
    if (headers.get(name) !== undefined) return undefined;
  }
  const vary = varyOf(headers);
  if (!vary) return undefined;
  const shared = secondsOf(directives, "s-maxage");
  const isPublic = directives.has("public") || shared !== undefined;
  // RFC 9111 3.5, but for `must-revalidate`, which applications also send with what is for one user.
  if (hasCredentials && !isPublic) return undefined;
  const ages = agesOf(headers, nowMs);
  const known = shared ?? secondsOf(directives, "max-age") ?? ages.expiresIn;
  // Without an explicit lifetime nothing is stored, so that no resource is cached by accident.
  if (known === undefined) return undefined;
  const isChecked = directives.has("no-cache");
  const freshFor = isChecked ? 0 : known;
  const mustValidate = isChecked || shared !== undefined || directives.has("must-revalidate") ||
    directives.has("proxy-revalidate");
  const staleFor = mustValidate ? 0 : secondsOf(directives, "stale-while-revalidate") ?? 0;
  const { age } = ages;
  const hasValidator = headers.get("etag") !== undefined ||
    headers.get("last-modified") !== undefined;
  if (freshFor <= age && !hasValidator && staleFor === 0) return undefined;
  return { freshFor, staleFor, age, isPublic, vary };
}

/** `undefined`: it varies by something that no header shows, or by too many headers. */
function varyOf(headers: Headers): readonly string[] | undefined {
  const names = headers.all("vary").join(",").split(",").map((name) => name.trim().toLowerCase());
  const named = [...new Set(names.filter((name) => name !== ""))];
  if (named.length > MAX_VARY || !named.every((name) => name !== "*" && FIELD_NAME.test(name))) {
    return undefined;
  }
  return named.sort();
}

function agesOf(headers: Headers, nowMs: number) {
  const dateMs = timeOf(headers.get("date")) ?? nowMs;
  const apparent = Math.max(0, (nowMs - dateMs) / 1_000);
  const said = headers.get("age");
  // An age that is no number could be any.
  const age = Math.max(apparent, said === undefined ? 0 : secondsIn(said) ?? MAX_SECONDS);
  const expires = headers.all("expires");
  const [at] = expires;
  if (at === undefined) return { age, expiresIn: undefined };
  const untilMs = expires.length > 1 ? undefined : timeOf(at);
  // A time that cannot be read is in the past.
  const left = untilMs === undefined ? 0 : (untilMs - dateMs) / 1_000;
  return { age, expiresIn: Math.min(Math.max(0, left), MAX_SECONDS) };
}

/** Only the form that RFC 9110 5.6.7 demands of senders. */
const HTTP_DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

export function timeOf(text: string | undefined): number | undefined {
  if (text === undefined || !HTTP_DATE.test(text)) return undefined;
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? undefined : ms;
}

/** The demands of a request on a stored response. */
export interface Demands {
  readonly noStore: boolean;
  readonly onlyIfCached: boolean;
  /** Seconds; a response that is older, or has less time left, is validated. */
  readonly maxAge: number;
  readonly minFresh: number;
}

const NO_DEMANDS: Demands = { noStore: false, onlyIfCached: false, maxAge: Infinity, minFresh: 0 };

export function demandsOf(headers: Headers): Demands {
  const values = headers.all("cache-control");
  if (values.length === 0) {
    const isOld = headers.get("pragma")?.toLowerCase().includes("no-cache") === true;
    return isOld ? { ...NO_DEMANDS, maxAge: 0 } : NO_DEMANDS;
  }
  const directives = directivesOf(values);
  return {
    noStore: directives.has("no-store"),
    onlyIfCached: directives.has("only-if-cached"),
    maxAge: directives.has("no-cache") ? 0 : secondsOf(directives, "max-age") ?? Infinity,
    minFresh: secondsOf(directives, "min-fresh") ?? 0,
  };
}

/** Whether the caller has the stored response already: `If-None-Match`, else `If-Modified-Since`. */
export function isNotModified(asked: Headers, stored: Headers): boolean {
  const tags = asked.all("if-none-match");
  if (tags.length > 0) {
    const etag = stored.get("etag");
    const wanted = tags.join(",");
    if (wanted.trim() === "*") return true;
    if (etag === undefined) return false;
    // Weak comparison, RFC 9110 13.1.2.
    return [...wanted.matchAll(/(?:W\/)?("[^"]*")/g)].some(([, tag]) => tag === opaque(etag));
  }
  const sinceMs = timeOf(asked.get("if-modified-since"));
  const changedMs = timeOf(stored.get("last-modified"));
  return sinceMs !== undefined && changedMs !== undefined && changedMs <= sinceMs;
}

function opaque(etag: string): string {
  return etag.replace(/^W\//, "");
}
