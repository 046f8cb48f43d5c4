/** Certificates and validations from files, in our own form; and rules for roots of any source. @module */

import * as v from "valibot";
import {
  checked,
  defined,
  flag,
  isRecord,
  list,
  type OutputOf,
  reader,
  readValue,
  type Report,
  type SchemaOf,
  text,
} from "../../base/schema.ts";
import { NO_RULES, type SanMatcher, type SanType } from "../../identity/mod.ts";
import { fieldsOf, number } from "../envoy/message.ts";
import { pairSpec } from "../envoy/envoy_secret.ts";
import {
  certificateHash,
  MATCHER_ENTRIES,
  matcherOf,
  OID,
  sanMatcher,
  sanMatcherOf,
  spkiPin,
} from "../envoy/validation_context.ts";
import type { SecretRef, ValidationRef } from "../model/plan.ts";
import type {
  CertificateSpec,
  DataSource,
  SecretSpec,
  ValidationSpec,
  WatchedDirectory,
} from "../model/secret.ts";
import { TIMEOUT_ENTRIES } from "./sources.ts";

export const PAIR_ENTRIES = {
  cert: v.exactOptional(text()),
  key: v.exactOptional(text()),
  pkcs12: v.exactOptional(text()),
  keyPassword: v.exactOptional(
    v.pipe(v.string("must be a text"), v.maxLength(4_096, "is too long")),
  ),
  keyPasswordFile: v.exactOptional(text()),
  ocspStaple: v.exactOptional(text()),
};

/** Envoy's file with one `Secret` in place of the files themselves, and common fields. */
const SECRET_FILE_ENTRIES = {
  secretFile: v.exactOptional(text()),
  name: v.exactOptional(text()),
  watchedDirectory: v.exactOptional(directory()),
  ...TIMEOUT_ENTRIES,
};

export const FILE_CERTIFICATE_ENTRIES = { ...PAIR_ENTRIES, ...SECRET_FILE_ENTRIES };

export function hasPair(found: object): boolean {
  return Object.keys(found).some((field) => Object.hasOwn(PAIR_ENTRIES, field));
}

export function fileCertificateRef(
  found: OutputOf<typeof FILE_CERTIFICATE_ENTRIES>,
  report: Report,
): SecretRef {
  const { cert, pkcs12, initialFetchTimeout } = found;
  const taken = { type: "certificate", beside: PAIR_ENTRIES, whose: "files" } as const;
  return secretFileRef(found, taken, report) ??
    specRef(cert ?? pkcs12 ?? "", fileCertificate(found, report), initialFetchTimeout);
}

export function fileCertificate(
  found: OutputOf<typeof PAIR_ENTRIES> & { readonly watchedDirectory?: WatchedDirectory },
  report: Report,
): CertificateSpec {
  const { cert, key, pkcs12, keyPassword, keyPasswordFile, ocspStaple, watchedDirectory } = found;
  if (keyPassword !== undefined && keyPasswordFile !== undefined) {
    report(["keyPassword"], "cannot be beside keyPasswordFile");
  }
  const password: DataSource | undefined = keyPassword === undefined
    ? fileSource(keyPasswordFile)
    : { kind: "inline", bytes: new TextEncoder().encode(keyPassword) };
  const pair = defined({
    chain: fileSource(cert),
    key: fileSource(key),
    pkcs12: fileSource(pkcs12),
    password,
    ocspStaple: fileSource(ocspStaple),
    watchedDirectory,
  });
  return pairSpec(pair, { chain: "cert", key: "key", or: "pkcs12, or secretFile" }, report);
}

/** The secret of `secretFile`, if there is one; without a name, any secret in the file will do. */
function secretFileRef(
  found: OutputOf<typeof SECRET_FILE_ENTRIES>,
  { type, beside, whose }: {
    readonly type: SecretRef["type"];
    /** Fields that exclude it. */
    readonly beside: object;
    readonly whose: "files" | "roots";
  },
  report: Report,
): SecretRef | undefined {
  const { secretFile: path, name, watchedDirectory, initialFetchTimeout } = found;
  if (path === undefined) {
    return name === undefined ? undefined : report(["name"], "goes with secretFile only");
  }
  for (const field of Object.keys(found)) {
    if (!Object.hasOwn(beside, field)) continue;
    report([field], `cannot be beside secretFile, which names the ${whose} itself`);
  }
  return {
    type,
    name: name ?? "",
    source: { kind: "secret_file", path, ...defined({ watchedDirectory }) },
    initialFetchTimeoutMs: initialFetchTimeout,
  };
}

/** A secret that the configuration describes itself; its files are watched. */
function specRef(name: string, spec: SecretSpec, initialFetchTimeoutMs: number): SecretRef {
  const source = { kind: "spec", spec, watch: true } as const;
  return { type: spec.type, name, source, initialFetchTimeoutMs };
}

export function fileSource(path: string | undefined): DataSource | undefined {
  return path === undefined ? undefined : { kind: "file", path };
}

function directory(): SchemaOf<WatchedDirectory> {
  const fields = fieldsOf({ path: text(), watchModify: v.optional(flag(), false) });
  return reader((value, report) => {
    const given = typeof value === "string" ? { path: value } : value;
    return readValue(fields, given, () => undefined) ??
      report([], 'must be a directory, or { "path", "watchModify" }');
  });
}

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

export const FILE_VALIDATION_ENTRIES = { ...ROOT_ENTRIES, ...RULE_ENTRIES, ...SECRET_FILE_ENTRIES };

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

/** Whether the rules decide which peers are accepted. Matchers alone do not: no CA vouches for the names. */
export function decides({ trustedCa, systemRoots, spiffe, rules }: ValidationSpec): boolean {
  return trustedCa !== undefined || systemRoots || spiffe !== undefined || rules.acceptUntrusted ||
    rules.spkiPins.length > 0 || rules.certificateHashes.length > 0;
}

export function withRules(secret: SecretRef, found: RuleFields): ValidationRef {
  const defaults = rulesSpec(found);
  const hasRules = defaults.crl || JSON.stringify(defaults.rules) !== JSON.stringify(NO_RULES);
  return hasRules ? { secret, defaults } : { secret };
}

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
