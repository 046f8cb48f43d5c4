/** Envoy's `CertificateValidationContext` with its matchers, and its SPIFFE validator. @module */

import * as v from "valibot";
import { Buffer } from "node:buffer";
import { canonicalIpText } from "../../base/mod.ts";
import {
  checked,
  type ConfigPath,
  defined,
  flag,
  list,
  type OutputOf,
  reader,
  type Report,
  type SchemaOf,
  text,
} from "../../base/schema.ts";
import {
  NO_RULES,
  parseTrustDomain,
  type SanMatcher,
  type SanType,
  type StringMatcher,
} from "../../identity/mod.ts";
import type { SpiffeBundlesSpec, ValidationSpec } from "../model/secret.ts";
import {
  anyOf,
  choice,
  dataSource,
  message,
  number,
  type SecretOptions,
  watchedDirectory,
} from "./message.ts";

const LIST_LIMIT = 1_000;

/** SHA-256 in hex, with colons or without, as lower-case hex without. */
export function certificateHash(): SchemaOf<string> {
  return reader((value, report) => {
    const hex = typeof value === "string" && value.length <= 95 ? value.replaceAll(":", "") : "";
    if (/^[0-9a-fA-F]{64}$/.test(hex)) return hex.toLowerCase();
    return report([], "must be the SHA-256 of a certificate in hex");
  });
}

/** SHA-256 in base64. */
export function spkiPin(): SchemaOf<string> {
  return reader((value, report) => {
    if (typeof value === "string" && /^[A-Za-z0-9+/]{43}=$/.test(value)) {
      return Buffer.from(value, "base64").toString("base64");
    }
    return report([], "must be the SHA-256 of a public key in base64, 44 characters");
  });
}

export function validationContext(options: SecretOptions): SchemaOf<ValidationSpec> {
  const source = v.exactOptional(dataSource(options));
  const fields = message({
    trustedCa: source,
    systemRootCerts: v.exactOptional(message({})),
    crl: source,
    verifyCertificateHash: list(certificateHash(), LIST_LIMIT),
    verifyCertificateSpki: list(spkiPin(), LIST_LIMIT),
    matchTypedSubjectAltNames: list(sanMatcher(), LIST_LIMIT),
    matchSubjectAltNames: list(stringMatcher(), LIST_LIMIT),
    allowExpiredCertificate: v.optional(flag(), false),
    trustChainVerification: v.optional(
      choice({ VERIFY_TRUST_CHAIN: [0, false], ACCEPT_UNTRUSTED: [1, true] }),
      "VERIFY_TRUST_CHAIN",
    ),
    onlyVerifyLeafCertCrl: v.optional(flag(), false),
    maxVerifyDepth: v.optional(number(0, 100), NO_RULES.maxDepth),
    customValidatorConfig: v.exactOptional(customValidator(options)),
    watchedDirectory: v.exactOptional(watchedDirectory(options)),
  }, {
    refused: {
      requireSignedCertificateTimestamp: "cannot be honoured: timestamps are not checked",
      caCertificateProviderInstance: "cannot be honoured: give the roots as trusted_ca",
      suppressClientCaList:
        "cannot be honoured: certificate requests name the roots where they are few",
    },
  });
  return checked(fields, (found, report): ValidationSpec => {
    const { trustedCa, crl, customValidatorConfig: spiffe, watchedDirectory } = found;
    const beside = "cannot be beside custom_validator_config, which has the roots";
    if (spiffe && trustedCa) report(["trusted_ca"], beside);
    if (spiffe && found.systemRootCerts) report(["system_root_certs"], beside);
    const typed = found.matchTypedSubjectAltNames;
    return {
      type: "validation",
      ...defined({ trustedCa, crl, spiffe, watchedDirectory }),
      systemRoots: found.systemRootCerts !== undefined,
      rules: {
        // Envoy ignores the deprecated list beside the typed one.
        matchers: typed.length > 0 ? typed : found.matchSubjectAltNames.flatMap(typedMatchers),
        spkiPins: found.verifyCertificateSpki,
        certificateHashes: found.verifyCertificateHash,
        crlPems: [],
        onlyLeafCrl: found.onlyVerifyLeafCertCrl,
        maxDepth: found.maxVerifyDepth,
        allowExpired: found.allowExpiredCertificate,
        acceptUntrusted: found.trustChainVerification,
      },
    };
  });
}

const SPIFFE_VALIDATOR = "envoy.tls.cert_validator.spiffe";

/** Envoy chooses the extension by its type and ignores the name; a wrong name is refused here. */
function customValidator(options: SecretOptions): SchemaOf<SpiffeBundlesSpec> {
  const fields = message({
    name: v.literal(SPIFFE_VALIDATOR, `must be ${SPIFFE_VALIDATOR}, the one that is known`),
    typedConfig: anyOf({
      "envoy.extensions.transport_sockets.tls.v3.SPIFFECertValidatorConfig": spiffeValidator(
        options,
      ),
    }),
  });
  return checked(fields, ({ typedConfig }) => typedConfig);
}

function spiffeValidator(options: SecretOptions): SchemaOf<SpiffeBundlesSpec> {
  const source = dataSource(options);
  const domain = v.pipe(
    text(),
    v.check((name) => parseTrustDomain(name) !== undefined, "is not a trust domain"),
    v.toLowerCase(),
  );
  const fields = message({
    trustDomains: list(
      message({
        name: domain,
        trustBundle: source,
        workloadTrustDomain: v.optional(v.union([v.literal(""), domain], "is not a trust domain")),
      }),
      LIST_LIMIT,
    ),
    trustBundles: v.exactOptional(source),
  });
  return checked(
    fields,
    ({ trustDomains, trustBundles }, report): SpiffeBundlesSpec | undefined => {
      if (trustBundles) return { kind: "map", source: trustBundles };
      if (trustDomains.length === 0) return report(["trust_domains"], "must not be empty");
      const seen = new Set<string>();
      const domains = trustDomains.map(({ name, trustBundle, workloadTrustDomain }, index) => {
        const leaves = workloadTrustDomain || name;
        if (seen.has(leaves)) report(["trust_domains", index], `has "${leaves}" a second time`);
        seen.add(leaves);
        return {
          name,
          bundle: trustBundle,
          ...(leaves !== name && { workloadTrustDomain: leaves }),
        };
      });
      return { kind: "domains", domains };
    },
  );
}

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

function stringMatcher(): SchemaOf<StringMatcher> {
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
function typedMatchers(matcher: StringMatcher): readonly SanMatcher[] {
  return UNTYPED.filter((type) => type !== "ip" || mayBeIp(matcher))
    .map((type) => ({ type, matcher }));
}

function mayBeIp(matcher: StringMatcher): boolean {
  return matcher.kind !== "exact" || canonicalIpText(matcher.value) !== undefined;
}
