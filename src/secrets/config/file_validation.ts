/**
 * A validation in our own form: roots from files, and rules, which apply to roots from any source.
 *
 * @module
 */

import * as v from "valibot";
import {
  checked,
  defined,
  flag,
  isRecord,
  list,
  type OutputOf,
  reader,
  type Report,
  type SchemaOf,
  text,
} from "../../base/schema.ts";
import { NO_RULES, type SanMatcher, type SanType } from "../../identity/mod.ts";
import { MATCHER_ENTRIES, matcherOf, OID, sanMatcher, sanMatcherOf } from "../envoy/matchers.ts";
import { fieldsOf, number } from "../envoy/message.ts";
import { certificateHash, spkiPin } from "../envoy/validation_context.ts";
import type { SecretRef, ValidationRef } from "../model/plan.ts";
import type { ValidationSpec } from "../model/spec.ts";
import { fileSource, SECRET_FILE_ENTRIES, secretFileRef, specRef } from "./file_certificate.ts";

const LIST_LIMIT = 1_000;

export const RULE_ENTRIES = {
  sanMatchers: list(nativeMatcher(), LIST_LIMIT),
  matchTypedSubjectAltNames: list(sanMatcher(), LIST_LIMIT),
  spkiPins: list(spkiPin(), LIST_LIMIT),
  certificateHashes: list(certificateHash(), LIST_LIMIT),
  crl: v.exactOptional(text()),
  maxDepth: v.optional(number(0, 100), NO_RULES.maxDepth),
  allowExpired: v.optional(flag(), false),
  onlyLeafCrl: v.optional(flag(), false),
  acceptUntrusted: v.optional(flag(), false),
};

const ROOT_ENTRIES = {
  ca: v.exactOptional(text()),
  trustBundles: v.exactOptional(text()),
  systemRoots: v.exactOptional(flag()),
};

export const FILE_VALIDATION_ENTRIES = {
  ...ROOT_ENTRIES,
  ...RULE_ENTRIES,
  ...SECRET_FILE_ENTRIES,
};

type RuleFields = OutputOf<typeof RULE_ENTRIES>;

export function fileValidationRef(
  found: OutputOf<typeof FILE_VALIDATION_ENTRIES>,
  report: Report,
): ValidationRef | undefined {
  const { ca, trustBundles, systemRoots = false, watchedDirectory } = found;
  const taken = { type: "validation", beside: ROOT_ENTRIES, whose: "roots" } as const;
  const secret = secretFileRef(found, taken, report);
  if (secret) return withRules(secret, found);
  if (trustBundles !== undefined && (ca !== undefined || systemRoots)) {
    report(["trustBundles"], "cannot be beside other roots");
  }
  const bundles = fileSource(trustBundles);
  const spec: ValidationSpec = {
    ...rulesSpec(found),
    systemRoots,
    ...defined({ trustedCa: fileSource(ca), watchedDirectory }),
    ...(bundles && { spiffe: { kind: "map", source: bundles } }),
  };
  if (!decides(spec)) {
    return report(
      ["ca"],
      "is missing, and nothing else says whom to accept: trustBundles, systemRoots, secretFile, " +
        "spkiPins or certificateHashes; to accept anyone, say acceptUntrusted: true",
    );
  }
  const name = ca ?? trustBundles ?? (systemRoots ? "system roots" : "rules");
  return { secret: specRef(name, spec, found.initialFetchTimeout) };
}

/** Whether it says which peers to accept, be it all. Matchers alone do not: no CA vouches for the names. */
export function decides({ trustedCa, systemRoots, spiffe, rules }: ValidationSpec): boolean {
  return trustedCa !== undefined || systemRoots || spiffe !== undefined || rules.acceptUntrusted ||
    rules.spkiPins.length > 0 || rules.certificateHashes.length > 0;
}

/** Roots from another source with these rules. */
export function withRules(secret: SecretRef, found: RuleFields): ValidationRef {
  const defaults = rulesSpec(found);
  const hasRules = defaults.crl || JSON.stringify(defaults.rules) !== JSON.stringify(NO_RULES);
  return hasRules ? { secret, defaults } : { secret };
}

/** Rules without roots. */
function rulesSpec(found: RuleFields): ValidationSpec {
  return {
    type: "validation",
    systemRoots: false,
    ...defined({ crl: fileSource(found.crl) }),
    rules: {
      matchers: [...found.sanMatchers, ...found.matchTypedSubjectAltNames],
      spkiPins: found.spkiPins,
      certificateHashes: found.certificateHashes,
      crlPems: [],
      onlyLeafCrl: found.onlyLeafCrl,
      maxDepth: found.maxDepth,
      allowExpired: found.allowExpired,
      acceptUntrusted: found.acceptUntrusted,
    },
  };
}

/** `{ "type": "uri", "exact": "spiffe://..." }`, or Envoy's `{ "san_type", "matcher" }`. */
function nativeMatcher(): SchemaOf<SanMatcher> {
  const { ignoreCase, ...kinds } = MATCHER_ENTRIES;
  const fields = fieldsOf({
    type: sanType(),
    oid: v.exactOptional(OID),
    ...kinds,
    regex: v.exactOptional(text()),
    ignoreCase,
  }, { oneOf: [...Object.keys(kinds), "regex"] });
  const short = checked(fields, ({ type, oid, regex, ...found }, report) => {
    const matcher = matcherOf(found, regex);
    return sanMatcherOf({ type, matcher, ...defined({ oid }) }, {
      exact: ["exact"],
      otherName: "other_name",
      report,
    });
  });
  const envoy = sanMatcher();
  return v.lazy((value) => isRecord(value) && Object.hasOwn(value, "matcher") ? envoy : short);
}

function sanType(): SchemaOf<SanType> {
  const types = ["dns", "uri", "email", "ip", "other_name"] as const;
  return reader((value, report) => {
    const text = typeof value === "string" ? value.toLowerCase() : "";
    if (text === "ip_address") return "ip";
    return types.find((type) => type === text) ??
      report([], "must be dns, uri, email, ip or other_name");
  });
}
