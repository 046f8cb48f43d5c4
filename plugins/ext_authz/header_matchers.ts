/**
 * Which headers are meant, by their names.
 *
 * @module
 */

import type { Host } from "../../src/plugin/api.ts";
import type { Matcher } from "./config.ts";

/** Of a name in lower case. */
export type Matches = (name: string) => boolean;

/** Whether one of them matches. Rejects where an expression is not RE2's. */
export async function matchesAny(matchers: readonly Matcher[], host: Host): Promise<Matches> {
  const all = await Promise.all(matchers.map((matcher) => matchesOf(matcher, host)));
  return (name) => all.some((matches) => matches(name));
}

async function matchesOf(matcher: Matcher, host: Host): Promise<Matches> {
  if ("safeRegex" in matcher) return await host.regex(matcher.safeRegex);
  // Names are in lower case here: what has a capital and minds it means nobody.
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
