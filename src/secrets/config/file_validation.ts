/**
 * Whom to accept, in our own form: roots from files, and rules that go with roots from anywhere.
 *
 * @module
 */

import * as v from "valibot";
import { NO_RULES, type PeerRules, type SanMatcher, type SanType } from "../../identity/mod.ts";
import { MATCHER_ENTRIES, matcherOf, OID, sanMatcher, sanMatcherOf } from "../envoy/matchers.ts";
import { fieldsOf, number } from "../envoy/message.ts";
import {
  checked,
  defined,
  flag,
  isRecord,
  list,
  reader,
  type Report,
  type SchemaOf,
  text,
} from "../../base/schema.ts";
import { certificateHash, spkiPin } from "../envoy/validation_context.ts";
import type { SecretRef, ValidationRef } from "../plan.ts";
import type { ValidationSpec } from "../spec.ts";
import { fileSource, SECRET_FILE_ENTRIES, secretFileRef } from "./file_certificate.ts";
import { specRef } from "./sources.ts";

const LIST_LIMIT = 1_000;

/** What a peer must satisfy besides, with roots of any source. */
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

type Output<T extends v.ObjectEntries> = v.InferOutput<v.ObjectSchema<T, undefined>>;
type RuleFields = Output<typeof RULE_ENTRIES>;

/** Reports what does not go together. */
export function fileValidationRef(
  found: Output<typeof FILE_VALIDATION_ENTRIES>,
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

/** Does it say whom to accept, be it anyone? Matchers alone do not: names that nobody vouches for. */
export function decides({ trustedCa, systemRoots, spiffe, rules }: ValidationSpec): boolean {
  return trustedCa !== undefined || systemRoots || spiffe !== undefined || rules.acceptUntrusted ||
    rules.spkiPins.length > 0 || rules.certificateHashes.length > 0;
}

/** Roots from elsewhere, with the rules that were given here. */
export function withRules(secret: SecretRef, found: RuleFields): ValidationRef {
  const defaults = rulesSpec(found);
  const given = defaults.crl || JSON.stringify(defaults.rules) !== JSON.stringify(NO_RULES);
  return given ? { secret, defaults } : { secret };
}

/** Rules, and no roots. */
function rulesSpec(found: RuleFields): ValidationSpec {
  const { sanMatchers, matchTypedSubjectAltNames, spkiPins, certificateHashes } = found;
  const { onlyLeafCrl, maxDepth, allowExpired, acceptUntrusted } = found;
  const rules: PeerRules = {
    matchers: [...sanMatchers, ...matchTypedSubjectAltNames],
    ...{ spkiPins, certificateHashes, crlPems: [] },
    ...{ onlyLeafCrl, maxDepth, allowExpired, acceptUntrusted },
  };
  return {
    type: "validation",
    systemRoots: false,
    ...defined({ crl: fileSource(found.crl) }),
    rules,
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
