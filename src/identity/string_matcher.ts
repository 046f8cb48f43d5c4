/**
 * Envoy's string matchers. Regexes are RE2's language and match whole values in time linear to their
 * length; the engine for them is 3 MB of memory and is loaded only when somebody needs it.
 *
 * What differs from RE2: `\C` (one byte) is refused. Look-around and back-references are refused by both.
 *
 * @module
 */

import { messageOf, ProxyError } from "../base/mod.ts";
import type { StringMatcher, Validation } from "./validation.ts";

export type StringTest = (value: string) => boolean;

/** Characters of a regex. */
export const REGEX_LIMIT_CHARS = 1000;
/** Steps of a compiled regex: a counted repeat of a thousand fits. */
export const REGEX_LIMIT_STEPS = 2000;
/** Characters of any other matcher's value. */
const VALUE_LIMIT_CHARS = 4096;
/** A longer value matches no regex. A SPIFFE id has at most 2,048 characters. */
const TESTED_LIMIT_CHARS = 4096;

type Engine = typeof import("re2js").RE2JS;
let engine: Engine | null = null;

/** Whether {@link prepareMatchers} must have been awaited before a validator is made of this. */
export function needsMatchers(validation: Validation): boolean {
  return validation.kind !== "mesh" &&
    validation.rules.matchers.some(({ matcher }) => matcher.kind === "regex");
}

/** Loads the engine for regexes, once per thread. */
export async function prepareMatchers(): Promise<void> {
  engine ??= (await import("re2js")).RE2JS;
}

/** Throws `credentials_invalid` naming what is wrong with the matcher. */
export function compileStringMatcher(
  matcher: StringMatcher,
  loaded: Engine | null = engine,
): StringTest {
  if (matcher.kind === "regex") return compileRegex(matcher.regex, loaded);
  const { kind, value, ignoreCase } = matcher;
  if (value.length > VALUE_LIMIT_CHARS) {
    fail(`a matcher's value is longer than ${VALUE_LIMIT_CHARS} characters`);
  }
  // All but "exact" would match everybody, and no name is empty.
  if (value === "") fail(`a matcher of kind "${kind}" has an empty value`);
  const wanted = ignoreCase ? lowerAscii(value) : value;
  const plain = plainTest(kind, wanted);
  return ignoreCase ? (given) => plain(lowerAscii(given)) : plain;
}

function plainTest(
  kind: Exclude<StringMatcher["kind"], "regex">,
  wanted: string,
): StringTest {
  switch (kind) {
    case "exact":
      return (value) => value === wanted;
    case "prefix":
      return (value) => value.startsWith(wanted);
    case "suffix":
      return (value) => value.endsWith(wanted);
    case "contains":
      return (value) => value.includes(wanted);
  }
}

function compileRegex(regex: string, loaded: Engine | null): StringTest {
  if (regex === "") fail("a regex is empty");
  if (regex.length > REGEX_LIMIT_CHARS) {
    fail(`a regex has ${regex.length} characters, more than ${REGEX_LIMIT_CHARS}`);
  }
  if (!loaded) {
    throw new ProxyError("internal", "Cannot compile a regex: prepareMatchers() was not awaited");
  }
  const compiled = compileWith(loaded, regex);
  const steps = compiled.programSize();
  if (steps > REGEX_LIMIT_STEPS) {
    fail(`the regex ${quote(regex)} has ${steps} steps, more than ${REGEX_LIMIT_STEPS}`);
  }
  return (value) => value.length <= TESTED_LIMIT_CHARS && compiled.testExact(value);
}

function compileWith(re2: Engine, regex: string): ReturnType<Engine["compile"]> {
  try {
    return re2.compile(regex);
  } catch (error) {
    return fail(`the regex ${quote(regex)} is not one of RE2: ${messageOf(error)}`);
  }
}

/** ASCII only, as Envoy's `ignore_case`: other letters have no one lower case. */
export function lowerAscii(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}

function quote(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}...` : text);
}

function fail(fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot use validation: ${fact}`);
}
