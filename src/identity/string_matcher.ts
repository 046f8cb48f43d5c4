/**
 * Envoy's string matchers, of names in certificates.
 *
 * @module
 */

import { compileRegex, ProxyError, textTest } from "../base/mod.ts";
import type { StringMatcher, Validation } from "./validation.ts";

export type StringTest = (value: string) => boolean;

/** Characters of any other matcher's value. */
const VALUE_LIMIT_CHARS = 4096;
/** A longer value matches no regex. A SPIFFE id has at most 2,048 characters. */
const TESTED_LIMIT_CHARS = 4096;

/** Whether `prepareRegexes()` must have been awaited before a validator is made of this. */
export function needsMatchers(validation: Validation): boolean {
  return validation.kind !== "mesh" &&
    validation.rules.matchers.some(({ matcher }) => matcher.kind === "regex");
}

/** Throws `credentials_invalid` naming what is wrong with the matcher. */
export function compileStringMatcher(matcher: StringMatcher): StringTest {
  if (matcher.kind === "regex") {
    const compiled = compileRegex(matcher.regex);
    if (compiled.kind === "refused") return fail(compiled.reason);
    const { regex } = compiled;
    return (value) => value.length <= TESTED_LIMIT_CHARS && regex.test(value);
  }
  const { kind, value, ignoreCase } = matcher;
  if (value.length > VALUE_LIMIT_CHARS) {
    fail(`a matcher's value is longer than ${VALUE_LIMIT_CHARS} characters`);
  }
  // All but "exact" would match everybody, and no name is empty.
  if (value === "") fail(`a matcher of kind "${kind}" has an empty value`);
  return textTest(kind, { value, ignoreCase });
}

function fail(fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot use validation: ${fact}`);
}
