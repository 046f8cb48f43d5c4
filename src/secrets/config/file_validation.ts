/**
 * Whom to accept, in our own form: roots from files, and rules that go with roots from anywhere.
 *
 * @module
 */

import * as v from "valibot";
import { NO_RULES, type PeerRules, type SanMatcher } from "../../identity/mod.ts";
import { sanMatcher } from "../envoy/matchers.ts";
import {
  flag,
  isRecord,
  list,
  number,
  type Reader,
  reader,
  type Report,
} from "../envoy/message.ts";
import { certificateHash, spkiPin } from "../envoy/validation_context.ts";
import { INITIAL_FETCH_TIMEOUT_MS, type SecretRef, type ValidationRef } from "../plan.ts";
import type { ValidationSpec } from "../spec.ts";
import { type Path, problemOf, text } from "../values.ts";
import {
  DIRECTORY_ENTRIES,
  fileSource,
  SECRET_FILE_ENTRIES,
  secretFileRef,
} from "./file_certificate.ts";
import { TIMEOUT_ENTRIES } from "./sources.ts";

const LIST_LIMIT = 1_000;

/** What a peer must satisfy besides, with roots of any source. */
export const RULE_ENTRIES = {
  sanMatchers: list(nativeMatcher(), LIST_LIMIT),
  matchTypedSubjectAltNames: list(sanMatcher(), LIST_LIMIT),
  spkiPins: list(spkiPin(), LIST_LIMIT),
  certificateHashes: list(certificateHash(), LIST_LIMIT),
  crl: v.optional(text()),
  maxDepth: v.optional(number(0, 100)),
  allowExpired: v.optional(flag()),
  onlyLeafCrl: v.optional(flag()),
  acceptUntrusted: v.optional(flag()),
};

export type RuleFields = v.InferOutput<v.ObjectSchema<typeof RULE_ENTRIES, undefined>>;

export const ROOT_ENTRIES = {
  ca: v.optional(text()),
  trustBundles: v.optional(text()),
  systemRoots: v.optional(flag()),
};

export const FILE_VALIDATION_ENTRIES = {
  ...ROOT_ENTRIES,
  ...RULE_ENTRIES,
  ...SECRET_FILE_ENTRIES,
  ...DIRECTORY_ENTRIES,
  ...TIMEOUT_ENTRIES,
};

type FileFields = v.InferOutput<v.ObjectSchema<typeof FILE_VALIDATION_ENTRIES, undefined>>;

/** Reports what does not go together. */
export function fileValidationRef(found: FileFields, report: Report): ValidationRef | undefined {
  const { ca, trustBundles, systemRoots = false, secretFile, watchedDirectory } = found;
  if (secretFile !== undefined) {
    for (const field of ["ca", "trustBundles", "systemRoots"] as const) {
      if (found[field] !== undefined) {
        report([field], "cannot be beside secretFile, which names the roots itself");
      }
    }
    return withRules(secretFileRef({ ...found, secretFile }, "validation"), found);
  }
  if (found.name !== undefined) report(["name"], "goes with secretFile only");
  if (trustBundles !== undefined && (ca !== undefined || systemRoots)) {
    report(["trustBundles"], "cannot be beside other roots");
  }
  const rules = rulesOf(found);
  const spec: ValidationSpec = {
    type: "validation",
    ...(ca !== undefined && { trustedCa: fileSource(ca) }),
    systemRoots,
    ...(found.crl !== undefined && { crl: fileSource(found.crl) }),
    ...(trustBundles !== undefined && {
      spiffe: { kind: "map", source: fileSource(trustBundles) },
    }),
    rules,
    ...(watchedDirectory && { watchedDirectory }),
  };
  if (!decides(spec)) {
    return report(
      ["ca"],
      "is missing, and nothing else says whom to accept: trustBundles, systemRoots, secretFile, " +
        "spkiPins or certificateHashes; to accept anyone, say acceptUntrusted: true",
    );
  }
  const name = ca ?? trustBundles ?? (systemRoots ? "system roots" : "rules");
  return {
    secret: {
      type: "validation",
      name,
      source: { kind: "spec", spec, watch: true },
      initialFetchTimeoutMs: found.initialFetchTimeout ?? INITIAL_FETCH_TIMEOUT_MS,
    },
  };
}

/** Does it say whom to accept, be it anyone? Matchers alone do not: names that nobody vouches for. */
export function decides({ trustedCa, systemRoots, spiffe, rules }: ValidationSpec): boolean {
  return trustedCa !== undefined || systemRoots || spiffe !== undefined || rules.acceptUntrusted ||
    rules.spkiPins.length > 0 || rules.certificateHashes.length > 0;
}

/** Roots from elsewhere, with the rules that were given here. */
export function withRules(secret: SecretRef, found: RuleFields): ValidationRef {
  const given = Object.keys(RULE_ENTRIES).some((name) => {
    const value = found[name as keyof RuleFields];
    return Array.isArray(value) ? value.length > 0 : value !== undefined;
  });
  if (!given) return { secret };
  const defaults: ValidationSpec = {
    type: "validation",
    systemRoots: false,
    ...(found.crl !== undefined && { crl: fileSource(found.crl) }),
    rules: rulesOf(found),
  };
  return { secret, defaults };
}

function rulesOf(found: RuleFields): PeerRules {
  return {
    matchers: [...found.sanMatchers, ...found.matchTypedSubjectAltNames],
    spkiPins: found.spkiPins,
    certificateHashes: found.certificateHashes,
    crlPems: [],
    onlyLeafCrl: found.onlyLeafCrl ?? false,
    maxDepth: found.maxDepth ?? NO_RULES.maxDepth,
    allowExpired: found.allowExpired ?? false,
    acceptUntrusted: found.acceptUntrusted ?? false,
  };
}

/** `{ "type": "uri", "exact": "spiffe://..." }`, or Envoy's `{ "san_type", "matcher" }`. */
function nativeMatcher(): Reader<SanMatcher> {
  const envoy = sanMatcher();
  return reader((value, report) => {
    const short = isRecord(value) && !Object.hasOwn(value, "matcher");
    const result = v.safeParse(envoy, short ? spelledOut(value) : value, { abortPipeEarly: true });
    if (result.success) return result.output;
    for (const { path, message } of result.issues.map(problemOf)) {
      if (short) report(shortened(path), inOwnWords(path, message));
      else report(path, message);
    }
    return undefined;
  });
}

function spelledOut({ type, oid, regex, ...rest }: Record<string, unknown>): unknown {
  const upper = typeof type === "string" ? type.toUpperCase() : type;
  const matcher = regex === undefined ? rest : { ...rest, safeRegex: { regex } };
  return { sanType: upper === "IP" ? "IP_ADDRESS" : upper, oid, matcher };
}

/** The path of a problem in what was spelled out, as it was written. */
function shortened([first, ...rest]: Path): Path {
  if (first === "sanType" || first === "san_type") return ["type"];
  if (first !== "matcher") return first === undefined ? [] : [first, ...rest];
  return rest[0] === "safeRegex" ? ["regex"] : rest;
}

function inOwnWords([first]: Path, message: string): string {
  const ofType = first === "sanType" && message.startsWith("must be");
  return ofType
    ? "must be dns, uri, email, ip or other_name"
    : message.replace("safe_regex, ignore_case", "regex, ignoreCase").replace(
      "safe_regex",
      "regex",
    );
}
