/**
 * A permission of an intention: which requests it covers. Matches are those that Consul has Envoy make (`consul`
 * reference 4.4, seen on Envoy 1.40): all conditions must hold, each value of a repeated field counts for itself.
 * A permission with a condition that cannot be judged as intended denies what its other conditions cover.
 *
 * @module
 */

import { compileRegex, type TextMatchKind, textTest } from "../base/mod.ts";
import type { TokenNeed } from "./token_need.ts";

/** Plain data, sent between threads. */
export interface Permission {
  readonly action: "allow" | "deny";
  /** Compared with the path without its query; absent: any. */
  readonly path?: PathMatch;
  /** Upper case; empty: any. */
  readonly methods: readonly string[];
  readonly headers: readonly HeaderMatch[];
  /** Tokens that an allowance demands: a request that it covers without one is denied. */
  readonly tokens?: readonly TokenNeed[];
  /** A demand that cannot be checked: the permission denies what its other conditions cover. */
  readonly refused?: string;
}

export interface PathMatch {
  readonly kind: "exact" | "prefix" | "regex";
  readonly value: string;
}

export interface HeaderMatch {
  /** Lower case. */
  readonly name: string;
  readonly kind: TextMatchKind | "present" | "regex";
  /** `""` with `present`. */
  readonly value: string;
  /** For ASCII letters; not for a regex. */
  readonly ignoreCase: boolean;
  /** There is such a field and none of its values matches; with `present`: there is none. */
  readonly invert: boolean;
}

/** The parts of a request that permissions judge; a `RequestHead` of `http` is one. */
export interface JudgedRequest {
  readonly method: string;
  readonly scheme: string;
  readonly authority: string;
  /** With its query, in the normalised form that is sent on. */
  readonly path: string;
  readonly upgrade: string;
  /** Length of its body, if it is declared. */
  readonly length: number;
  readonly saysLength: boolean;
  /** Name in lower case, value, name as spelled, of each field; characters are octets. */
  readonly fields: readonly string[];
}

type Condition = (request: JudgedRequest) => boolean;

interface NamedCondition {
  /** For people: `method GET`; no value of a header is in it: it may be a secret. */
  readonly name: string;
  readonly holds: Condition;
}

export interface CompiledPermission {
  readonly action: "allow" | "deny";
  readonly covers: Condition;
  /** The first condition that keeps it from covering the request, for people; undefined: none does. */
  unmet(request: JudgedRequest): string | undefined;
  /** It denies what it covers because it cannot be judged as it was meant. */
  readonly isUnjudged: boolean;
  /** See {@link Permission.tokens}. */
  readonly tokens: readonly TokenNeed[] | undefined;
  /** Its text in logs: `deny GET /admin*`. No value of a header is in it: it may be a secret. */
  readonly text: string;
}

/** Texts of one field in {@link JudgedRequest.fields}. */
const FIELD = 3;
/** Limits for one regex: characters of all values together, and their cost: some 50 ms. */
const REGEX_LIMIT_CHARS = 8_192;
const REGEX_WORK_LIMIT_STEPS = 500_000;
/** A line is for people. */
const TEXT_LIMIT_CHARS = 200;

/** Fields that codecs remove: a condition on them could not be judged. */
const OF_ONE_CONNECTION: ReadonlySet<string> = new Set([
  "connection",
  "expect",
  "keep-alive",
  "proxy-connection",
  "transfer-encoding",
]);

/** `prepareRegexes()` must have been awaited before these are compiled or checked for faults. */
export function needsRegexes(permissions: readonly Permission[]): boolean {
  return permissions.some(({ path, headers }) =>
    path?.kind === "regex" || headers.some(({ kind }) => kind === "regex")
  );
}

/** Why it cannot be judged as intended; undefined: it can. Regexes have been prepared. */
export function permissionFault({ path, headers, refused }: Permission): string | undefined {
  if (refused !== undefined) return refused;
  const pathFault = path?.kind === "regex" ? regexFault(path.value) : undefined;
  return pathFault ?? headers.map(headerFault).find((fault) => fault !== undefined);
}

function headerFault({ name, kind, value }: HeaderMatch): string | undefined {
  if (OF_ONE_CONNECTION.has(name)) return `"${name}" is of one connection and cannot be judged`;
  return kind === "regex" ? regexFault(value) : undefined;
}

function regexFault(text: string): string | undefined {
  const compiled = compileRegex(octets(text));
  return compiled.kind === "refused" ? compiled.reason : undefined;
}

export function compilePermission(permission: Permission): CompiledPermission {
  const fault = permissionFault(permission);
  const action = fault === undefined ? permission.action : "deny";
  // A request that makes a condition too costly to judge is denied.
  const unsure = action === "deny";
  const { path, methods } = permission;
  const headers = permission.headers.filter((header) => headerFault(header) === undefined);
  const conditions: NamedCondition[] = [];
  if (methods.length > 0) {
    conditions.push({
      name: `method ${methods.join("|")}`,
      // As with names: a denial covers any letter case, since not every application is case-sensitive.
      holds: ({ method }) => methods.includes(unsure ? method.toUpperCase() : method),
    });
  }
  if (path && !(path.kind === "regex" && regexFault(path.value) !== undefined)) {
    conditions.push({ name: `path ${pathText(path)}`, holds: pathCondition(path, unsure) });
  }
  for (const header of headers) {
    conditions.push({ name: `header ${header.name}`, holds: headerCondition(header, unsure) });
  }
  return {
    action,
    covers: allOf(conditions.map(({ holds }) => holds)),
    unmet: (request) => conditions.find(({ holds }) => !holds(request))?.name,
    isUnjudged: fault !== undefined,
    tokens: action === "allow" ? permission.tokens : undefined,
    text: textOf(permission, fault),
  };
}

function allOf(conditions: readonly Condition[]): Condition {
  const [first = () => true, second] = conditions;
  if (!second) return first;
  return (request) => {
    for (const holds of conditions) if (!holds(request)) return false;
    return true;
  };
}

function pathCondition({ kind, value }: PathMatch, unsure: boolean): Condition {
  const wanted = octets(value);
  if (kind === "regex") {
    const { test, limitChars } = regexTest(wanted);
    return ({ path }) => {
      const end = endOfPath(path);
      return end > limitChars ? unsure : test(path.slice(0, end));
    };
  }
  // No path has a query.
  if (endOfPath(wanted) < wanted.length) return () => false;
  if (kind === "prefix") return ({ path }) => path.startsWith(wanted);
  return ({ path }) => path.startsWith(wanted) && endOfPath(path) === wanted.length;
}

function endOfPath(path: string): number {
  const query = path.indexOf("?");
  const fragment = path.indexOf("#");
  if (query < 0) return fragment < 0 ? path.length : fragment;
  return fragment < 0 ? query : Math.min(query, fragment);
}

function headerCondition(header: HeaderMatch, unsure: boolean): Condition {
  const { name, invert } = header;
  const { test, limitChars } = valueTest(header);
  const own = OWN_VALUES.get(name);
  // Only `present`, inverted, holds without the field; all other conditions need it.
  const ifAbsent = header.kind === "present" && invert;
  if (own) {
    return (request) => {
      const value = own(request);
      if (value === undefined) return ifAbsent;
      return value.length > limitChars ? unsure : test(value) !== invert;
    };
  }
  return ({ fields }) => {
    let isThere = false;
    let chars = 0;
    for (let i = 0; i < fields.length; i += FIELD) {
      if (fields[i] !== name) continue;
      const value = fields[i + 1] ?? "";
      chars += value.length;
      if (chars > limitChars) return unsure;
      if (test(value)) return !invert;
      isThere = true;
    }
    return isThere ? invert : ifAbsent;
  };
}

/** Envoy's names for parts of a request that are no fields here. */
const OWN_VALUES: ReadonlyMap<string, (request: JudgedRequest) => string | undefined> = new Map([
  [":method", ({ method }) => method],
  [":scheme", ({ scheme }) => some(scheme)],
  [":authority", ({ authority }) => some(authority)],
  ["host", ({ authority }) => some(authority)],
  [":path", ({ path }) => some(path)],
  ["upgrade", ({ upgrade }) => some(upgrade)],
  ["content-length", ({ length, saysLength }) => saysLength ? String(length) : undefined],
]);

function some(value: string): string | undefined {
  return value === "" ? undefined : value;
}

/** Matches one value; more than `limitChars` in one request cost too much. */
interface ValueTest {
  readonly test: (value: string) => boolean;
  readonly limitChars: number;
}

function valueTest({ name, kind, value, ignoreCase }: HeaderMatch): ValueTest {
  const wanted = octets(value);
  if (kind === "present") return { test: () => true, limitChars: Infinity };
  // Names of protocols have no case, and that of the request was lost on the way.
  const anyCase = name === "upgrade";
  if (kind === "regex") return regexTest(anyCase ? `(?i)${wanted}` : wanted);
  const test = textTest(kind, { value: wanted, ignoreCase: ignoreCase || anyCase });
  return { test, limitChars: Infinity };
}

function regexTest(text: string): ValueTest {
  const compiled = compileRegex(text);
  // Zero characters: an invalid regex can judge no value.
  if (compiled.kind === "refused") return { test: () => false, limitChars: -1 };
  const { steps, test } = compiled.regex;
  return {
    test,
    limitChars: Math.min(REGEX_LIMIT_CHARS, Math.floor(REGEX_WORK_LIMIT_STEPS / steps)),
  };
}

/** The text as in a request, where each octet of UTF-8 is a character; Envoy's regexes see it so, too. */
function octets(text: string): string {
  if (!/[\u0080-\uffff]/.test(text)) return text;
  return Array.from(new TextEncoder().encode(text), (octet) => String.fromCharCode(octet)).join("");
}

function pathText({ kind, value }: PathMatch): string {
  return `${kind === "regex" ? "~" : ""}${value}${kind === "prefix" ? "*" : ""}`;
}

function textOf(permission: Permission, fault: string | undefined): string {
  const { action, path, methods, headers } = permission;
  const names = [...new Set(headers.map(({ name }) => name))];
  const words = [
    action,
    methods.join("|"),
    path ? pathText(path) : "",
    names.length > 0 ? `with ${names.join(", ")}` : "",
  ].filter((word) => word !== "").join(" ");
  const shown = words.length > TEXT_LIMIT_CHARS ? `${words.slice(0, TEXT_LIMIT_CHARS)}...` : words;
  return fault === undefined ? shown : `${shown}; denies, since ${fault}`;
}
