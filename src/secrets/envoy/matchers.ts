/**
 * Envoy's `StringMatcher` and `SubjectAltNameMatcher`. A regex is checked against RE2's language where it
 * is compiled.
 *
 * @module
 */

import * as v from "valibot";
import { canonicalIpText } from "../../base/mod.ts";
import {
  checked,
  type ConfigPath,
  flag,
  type OutputOf,
  type Report,
  type SchemaOf,
  text,
} from "../../base/schema.ts";
import type { SanMatcher, SanType, StringMatcher } from "../../identity/mod.ts";
import { choice, message } from "./message.ts";

const KINDS = ["exact", "prefix", "suffix", "contains"] as const;

export const MATCHER_ENTRIES = {
  // No name is empty; Envoy's own check allows only this kind to be.
  exact: v.exactOptional(
    v.pipe(v.string("must be a text"), v.nonEmpty("must not be empty"), v.maxLength(4_096)),
  ),
  prefix: v.exactOptional(text()),
  suffix: v.exactOptional(text()),
  contains: v.exactOptional(text()),
  ignoreCase: v.optional(flag(), false),
};

/** As in Envoy, `ignoreCase` has no effect on a regex. */
export function matcherOf(
  found: OutputOf<typeof MATCHER_ENTRIES>,
  regex: string | undefined,
): StringMatcher {
  if (regex !== undefined) return { kind: "regex", regex };
  const kind = KINDS.find((kind) => found[kind] !== undefined) ?? "exact";
  return { kind, value: found[kind] ?? "", ignoreCase: found.ignoreCase };
}

export function stringMatcher(): SchemaOf<StringMatcher> {
  const { ignoreCase, ...kinds } = MATCHER_ENTRIES;
  const safeRegex = v.exactOptional(
    message({ regex: text(), googleRe2: v.exactOptional(v.unknown()) }),
  );
  const fields = message({ ...kinds, safeRegex, ignoreCase }, {
    oneOf: [...KINDS, "safeRegex"],
    refused: { custom: "cannot be honoured: no extension is loaded here" },
  });
  return checked(fields, (found) => matcherOf(found, found.safeRegex?.regex));
}

/** The types that an untyped matcher applies to (`match_subject_alt_names`). */
const UNTYPED: readonly SanType[] = ["dns", "uri", "email", "ip"];

export const OID: v.GenericSchema<string> = v.pipe(
  text(),
  v.regex(/^[0-2](?:\.(?:0|[1-9]\d{0,18})){1,32}$/, "must be an object id such as 1.3.6.1.4.1"),
);

export function sanMatcher(): SchemaOf<SanMatcher> {
  const fields = message({
    sanType: choice<SanType>({
      EMAIL: [1, "email"],
      DNS: [2, "dns"],
      URI: [3, "uri"],
      IP_ADDRESS: [4, "ip"],
      OTHER_NAME: [5, "other_name"],
    }),
    matcher: stringMatcher(),
    oid: v.exactOptional(OID),
  });
  return checked(fields, ({ sanType, ...found }, report) => {
    return sanMatcherOf({ type: sanType, ...found }, {
      exact: ["matcher", "exact"],
      otherName: "OTHER_NAME",
      report,
    });
  });
}

/** Reports what the type requires; `at` has the names of the form. */
export function sanMatcherOf(
  { type, matcher, oid }: SanMatcher,
  at: { readonly exact: ConfigPath; readonly otherName: string; readonly report: Report },
): SanMatcher | undefined {
  if (type === "ip" && !mayBeIp(matcher)) return at.report(at.exact, "must be an IP address");
  if (type !== "other_name") return { type, matcher };
  return oid === undefined
    ? at.report(["oid"], `is missing; ${at.otherName} needs one`)
    : { type, oid, matcher };
}

/** The typed matchers that a `StringMatcher` of the deprecated list is equal to. */
export function typedMatchers(matcher: StringMatcher): readonly SanMatcher[] {
  return UNTYPED.filter((type) => type !== "ip" || mayBeIp(matcher))
    .map((type) => ({ type, matcher }));
}

function mayBeIp(matcher: StringMatcher): boolean {
  return matcher.kind !== "exact" || canonicalIpText(matcher.value) !== undefined;
}
