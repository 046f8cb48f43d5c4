/**
 * Envoy's `StringMatcher` and `SubjectAltNameMatcher`. Whether a regex means here what RE2 makes of it
 * is judged where it is compiled.
 *
 * @module
 */

import * as v from "valibot";
import { canonicalIpText } from "../../base/mod.ts";
import type { SanMatcher, SanType, StringMatcher } from "../../identity/mod.ts";
import { text } from "../values.ts";
import { checked, choice, flag, message, oneOf, type Reader } from "./message.ts";

const KINDS = ["exact", "prefix", "suffix", "contains"] as const;

export function stringMatcher(): Reader<StringMatcher> {
  const fields = message({
    // No name is empty, and Envoy's own check leaves only this kind out.
    exact: v.optional(
      v.pipe(v.string("must be a text"), v.nonEmpty("must not be empty"), v.maxLength(4_096)),
    ),
    prefix: v.optional(text()),
    suffix: v.optional(text()),
    contains: v.optional(text()),
    safeRegex: v.optional(message({ regex: text(), googleRe2: v.optional(v.unknown()) })),
    ignoreCase: v.optional(flag(), false),
  }, { refused: { custom: "cannot be honoured: no extension is loaded here" } });
  return checked(fields, (found, report): StringMatcher | undefined => {
    const given = oneOf(found, [...KINDS, "safeRegex"]);
    if (typeof given === "string") return report([], given);
    // As in Envoy, ignore_case says nothing about a regex.
    if (found.safeRegex) return { kind: "regex", regex: found.safeRegex.regex };
    const kind = KINDS.find((kind) => kind === given.name) ?? "exact";
    return { kind, value: found[kind] ?? "", ignoreCase: found.ignoreCase };
  });
}

const SAN_TYPES: readonly { name: string; number: number; value: SanType }[] = [
  { name: "EMAIL", number: 1, value: "email" },
  { name: "DNS", number: 2, value: "dns" },
  { name: "URI", number: 3, value: "uri" },
  { name: "IP_ADDRESS", number: 4, value: "ip" },
  { name: "OTHER_NAME", number: 5, value: "other_name" },
];

/** Types that an untyped matcher stands for (`match_subject_alt_names`). */
const UNTYPED: readonly SanType[] = ["dns", "uri", "email", "ip"];

const OID = v.pipe(
  text(),
  v.regex(/^[0-2](?:\.(?:0|[1-9]\d{0,18})){1,32}$/, "must be an object id such as 1.3.6.1.4.1"),
);

export function sanMatcher(): Reader<SanMatcher> {
  const fields = message({
    sanType: choice(SAN_TYPES),
    matcher: stringMatcher(),
    oid: v.optional(OID),
  });
  return checked(fields, ({ sanType, matcher, oid }, report): SanMatcher | undefined => {
    if (sanType === "ip" && !mayBeIp(matcher)) {
      return report(["matcher", "exact"], "must be an IP address");
    }
    if (sanType !== "other_name") return { type: sanType, matcher };
    return oid === undefined
      ? report(["oid"], "is missing; OTHER_NAME needs one")
      : { type: sanType, oid, matcher };
  });
}

/** A `StringMatcher` of the deprecated list as the typed ones that it stands for. */
export function typedMatchers(matcher: StringMatcher): readonly SanMatcher[] {
  return UNTYPED.filter((type) => type !== "ip" || mayBeIp(matcher))
    .map((type) => ({ type, matcher }));
}

function mayBeIp(matcher: StringMatcher): boolean {
  return matcher.kind !== "exact" || canonicalIpText(matcher.value) !== undefined;
}
