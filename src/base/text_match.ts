/**
 * Matches texts as Envoy's string matchers do: regexes are in RE2's language (without `\C`) and match
 * whole values in linear time. Their engine takes 3 MB and is loaded when it is needed.
 *
 * @module
 */

import { messageOf, ProxyError } from "./errors.ts";

/** Characters of a regex. */
export const REGEX_LIMIT_CHARS = 1000;
/** Steps of a compiled regex: a counted repeat of a thousand fits. */
export const REGEX_LIMIT_STEPS = 2000;

type Engine = typeof import("re2js").RE2JS;
let engine: Engine | null = null;

/** Texts without a regex. */
export type TextMatchKind = "exact" | "prefix" | "suffix" | "contains";

export interface Regex {
  /** The most steps for one character of a value. */
  readonly steps: number;
  /** Whether it matches the whole value. */
  test(value: string): boolean;
}

export type CompiledRegex =
  | { readonly kind: "compiled"; readonly regex: Regex }
  /** `reason` continues "cannot use it:". */
  | { readonly kind: "refused"; readonly reason: string };

/** Loads the engine, once per thread. */
export async function prepareRegexes(): Promise<void> {
  engine ??= (await import("re2js")).RE2JS;
}

/** {@link prepareRegexes} must have been awaited in this thread. */
export function compileRegex(text: string, loaded: Engine | null = engine): CompiledRegex {
  if (text === "") return refused("a regex is empty");
  if (text.length > REGEX_LIMIT_CHARS) {
    return refused(`a regex has ${text.length} characters, more than ${REGEX_LIMIT_CHARS}`);
  }
  if (!loaded) {
    throw new ProxyError("internal", "Cannot compile a regex: prepareRegexes() was not awaited");
  }
  try {
    const compiled = loaded.compile(text);
    const steps = compiled.programSize();
    if (steps > REGEX_LIMIT_STEPS) {
      return refused(`the regex ${quote(text)} has ${steps} steps, more than ${REGEX_LIMIT_STEPS}`);
    }
    return { kind: "compiled", regex: { steps, test: (value) => compiled.testExact(value) } };
  } catch (error) {
    return refused(`the regex ${quote(text)} is not one of RE2: ${messageOf(error)}`);
  }
}

/** `ignoreCase` is about ASCII letters. */
export function textTest(
  kind: TextMatchKind,
  { value, ignoreCase }: { readonly value: string; readonly ignoreCase: boolean },
): (given: string) => boolean {
  if (!ignoreCase) return plainTest(kind, value);
  const plain = plainTest(kind, lowerAscii(value));
  return (given) => plain(lowerAscii(given));
}

function plainTest(kind: TextMatchKind, wanted: string): (given: string) => boolean {
  switch (kind) {
    case "exact":
      return (given) => given === wanted;
    case "prefix":
      return (given) => given.startsWith(wanted);
    case "suffix":
      return (given) => given.endsWith(wanted);
    case "contains":
      return (given) => given.includes(wanted);
  }
}

/** ASCII only, as Envoy's `ignore_case`: other letters have no one lower case. */
export function lowerAscii(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}

function refused(reason: string): CompiledRegex {
  return { kind: "refused", reason };
}

function quote(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}...` : text);
}
