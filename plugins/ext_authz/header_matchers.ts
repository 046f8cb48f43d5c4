/** Selects headers by name. @module */

import type { Host } from "../../src/plugin/api.ts";
import type { Matcher } from "./config.ts";

/** Requires a name in lower case. */
export type Matches = (name: string) => boolean;

/** Whether one of the matchers matches. Rejects if an expression is not valid RE2 syntax. */
export async function matchesAny(matchers: readonly Matcher[], host: Host): Promise<Matches> {
  const all = await Promise.all(matchers.map((matcher) => matchesOf(matcher, host)));
  return (name) => all.some((matches) => matches(name));
}

async function matchesOf(matcher: Matcher, host: Host): Promise<Matches> {
  if ("safeRegex" in matcher) return await host.regex(matcher.safeRegex);
  // Names are in lower case here, so a case-sensitive matcher with a capital letter never matches.
  const of = (text: string) => matcher.ignoreCase ? text.toLowerCase() : text;
  if ("exact" in matcher) {
    const exact = of(matcher.exact);
    return (name) => name === exact;
  }
  if ("prefix" in matcher) {
    const prefix = of(matcher.prefix);
    return (name) => name.startsWith(prefix);
  }
  if ("suffix" in matcher) {
    const suffix = of(matcher.suffix);
    return (name) => name.endsWith(suffix);
  }
  const part = of(matcher.contains);
  return (name) => name.includes(part);
}
