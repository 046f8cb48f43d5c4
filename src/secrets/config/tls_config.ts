/**
 * The credentials of one listener or upstream, in Envoy's form or in our own: one line for the common
 * case, or certificate and validation with a source each.
 *
 * @example
 * { "source": "file", "cert": "web.pem", "key": "web.key", "ca": "roots.pem" }
 * {
 *   "certificate": { "source": "sds", "cluster": "sds_cluster", "name": "web" },
 *   "validation": { "source": "consul" },
 *   "minVersion": "1.3"
 * }
 *
 * @module
 */

import * as v from "valibot";
import {
  checked,
  defined,
  duration,
  flag,
  isRecord,
  list,
  type OutputOf,
  parsed,
  reader,
  type Report,
  type SchemaOf,
  tagged,
  text,
} from "../../base/schema.ts";
import { fieldsOf, number } from "../envoy/message.ts";
import {
  DEFAULT_ON_DEMAND_RULES,
  type OnDemandPlan,
  type SecretRef,
  type ValidationRef,
} from "../model/plan.ts";
import { envoyForm, isEnvoyForm } from "./envoy_form.ts";
import {
  FILE_CERTIFICATE_ENTRIES,
  FILE_VALIDATION_ENTRIES,
  fileCertificateRef,
  fileValidationRef,
  hasPair,
  RULE_ENTRIES,
  withRules,
} from "./file_secrets.ts";
import {
  CERTIFICATES_LIMIT,
  consulRef,
  type ParsedTls,
  type RefOf,
  SDS_ENTRIES,
  SDS_SECRET_ENTRIES,
  sdsRef,
  serverOf,
  type TlsConfigContext,
  type TlsForm,
  type TlsReading,
  WORKLOAD_ENTRIES,
  workloadRef,
} from "./sources.ts";
import { parametersOf, VERSION_ENTRIES } from "./tls_parameters.ts";

/** Never throws; all problems are reported at once, below the context's path. */
export function parseTlsConfig(value: unknown, context: TlsConfigContext): ParsedTls {
  const warnings: string[] = [];
  const reading: TlsReading = { ...context, warn: (message) => void warnings.push(message) };
  const form = isEnvoyForm(value) ? envoyForm(reading) : nativeForm(reading);
  const result = parsed(form, value, context.path);
  return result.kind === "valid" ? { kind: "valid", ...result.output, warnings } : result;
}

const COMMON_ENTRIES = { requireClientCertificate: v.exactOptional(flag()), ...VERSION_ENTRIES };

interface Parts {
  readonly certificates: readonly SecretRef[];
  readonly validation: ValidationRef | null;
  readonly onDemand: OnDemandPlan | null;
  readonly common: OutputOf<typeof COMMON_ENTRIES>;
}

function nativeForm(reading: TlsReading): SchemaOf<TlsForm> {
  const [whole, line] = [structured(reading), oneLine(reading)];
  const form = v.lazy((value) => isRecord(value) && Object.hasOwn(value, "source") ? line : whole);
  return checked(form, (parts, report) => ({ plan: planOf(parts, { reading, report }) }));
}

function structured(reading: TlsReading): SchemaOf<Parts> {
  const fields = fieldsOf({
    certificate: v.exactOptional(certificate(reading)),
    certificates: v.exactOptional(list(certificate(reading), CERTIFICATES_LIMIT)),
    validation: v.exactOptional(validation(reading)),
    onDemand: v.exactOptional(onDemandPlan(reading)),
    ...COMMON_ENTRIES,
  });
  return checked(fields, (found, report) => {
    const { certificate: one, certificates: several, onDemand = null } = found;
    if (one !== undefined && several) {
      report(["certificates"], "cannot be beside certificate; put all of them here");
    }
    const given = several ?? (one === undefined ? undefined : [one]);
    return {
      certificates: given?.filter((ref) => ref !== null) ??
        (onDemand ? [] : [consulRef("certificate")]),
      validation: found.validation === undefined
        ? { secret: consulRef("validation") }
        : found.validation,
      onDemand,
      common: found,
    };
  });
}

/** One source for the whole listener or upstream. */
function oneLine(reading: TlsReading): SchemaOf<Parts> {
  const entries = { ...RULE_ENTRIES, ...COMMON_ENTRIES };
  const consul = fieldsOf(entries);
  const file = fieldsOf({ ...FILE_CERTIFICATE_ENTRIES, ...FILE_VALIDATION_ENTRIES, ...entries }, {
    refused: {
      secretFile: 'holds one secret; say "certificate" or "validation" around it',
      name: 'goes with secretFile, which is inside "certificate" or "validation"',
    },
  });
  const workload = fieldsOf({ ...WORKLOAD_ENTRIES, ...entries });
  return bySource<Parts>({
    consul: checked(consul, (found) => ({
      certificates: [consulRef("certificate")],
      validation: withRules(consulRef("validation"), found),
      onDemand: null,
      common: found,
    })),
    file: checked(file, (found, report) => {
      const pair = hasPair(found);
      const roots = found.ca !== undefined || found.trustBundles !== undefined ||
        found.systemRoots || found.acceptUntrusted;
      if (!pair && !roots) report(["cert"], "is missing; or ca, or both");
      const validation = roots
        ? fileValidationRef(found, report)
        : withRules(consulRef("validation"), found);
      const certificate = pair ? fileCertificateRef(found, report) : consulRef("certificate");
      return validation &&
        { certificates: [certificate], validation, onDemand: null, common: found };
    }),
    workload: checked(workload, (found, report) => {
      const certificate = workloadRef("certificate", reading)(found, report);
      // The second one would report the same problems again.
      const secret = certificate && workloadRef("validation", reading)(found, report);
      return secret && {
        certificates: [certificate],
        validation: withRules(secret, found),
        onDemand: null,
        common: found,
      };
    }),
  }, 'holds one secret a name; say "certificate" and "validation" with a source each');
}

/** `null`: none, explicitly. */
function certificate(reading: TlsReading): SchemaOf<SecretRef | null> {
  return bySource<SecretRef | null>({
    consul: checked(fieldsOf({}), () => consulRef("certificate")),
    none: checked(fieldsOf({}), () => null),
    file: checked(fieldsOf(FILE_CERTIFICATE_ENTRIES), fileCertificateRef),
    sds: checked(fieldsOf(SDS_SECRET_ENTRIES), sdsRef("certificate", reading)),
    workload: checked(fieldsOf(WORKLOAD_ENTRIES), workloadRef("certificate", reading)),
  });
}

/** `null`: none, explicitly. */
function validation(reading: TlsReading): SchemaOf<ValidationRef | null> {
  return bySource<ValidationRef | null>({
    consul: checked(fieldsOf(RULE_ENTRIES), (found) => withRules(consulRef("validation"), found)),
    none: checked(fieldsOf({}), () => null),
    file: checked(fieldsOf(FILE_VALIDATION_ENTRIES), fileValidationRef),
    sds: ruled(SDS_SECRET_ENTRIES, sdsRef("validation", reading)),
    workload: ruled(WORKLOAD_ENTRIES, workloadRef("validation", reading)),
  });
}

function ruled<T extends v.ObjectEntries>(entries: T, refOf: RefOf<T>): SchemaOf<ValidationRef> {
  const fields = fieldsOf({ ...entries, ...RULE_ENTRIES });
  return checked(fields, (found, report) => {
    const secret = refOf(found as OutputOf<T>, report);
    return secret && withRules(secret, found as OutputOf<typeof RULE_ENTRIES>);
  });
}

/** `sds`: the message about SDS if it is none of the sources. */
function bySource<T>(schemas: Readonly<Record<string, SchemaOf<T>>>, sds?: string): SchemaOf<T> {
  const wanted = `must be ${Object.keys(schemas).join(", ")}`;
  return tagged("source", schemas, {
    wanted,
    hint: (name) => name === "sds" && sds ? sds : wanted,
  });
}

function planOf(
  { certificates, validation, onDemand, common }: Parts,
  { reading, report }: { readonly reading: TlsReading; readonly report: Report },
): TlsForm["plan"] {
  const required = common.requireClientCertificate;
  if (reading.kind === "listener") {
    if (certificates.length === 0 && !onDemand) {
      report(["certificates"], "must not be empty: a listener shows a certificate");
    }
    if (required && !validation) {
      report(["requireClientCertificate"], "cannot be true where validation is none");
    }
  } else {
    if (!validation) {
      report(
        ["validation"],
        'cannot be none for an upstream; to accept any server, say { "source": "file", ' +
          '"acceptUntrusted": true }',
      );
    }
    if (certificates.length > 1) report(["certificates"], "has several; an upstream is shown one");
    if (required !== undefined) report(["requireClientCertificate"], "is for listeners only");
    if (onDemand) report(["onDemand"], "is for listeners only");
  }
  const tls = parametersOf(common, () => report(["minVersion"], "is above maxVersion"));
  return {
    certificates,
    validation,
    requireClientCertificate: validation !== null && (required ?? true),
    onDemand,
    ...defined({ tls }),
  };
}

const NAMES_LIMIT = 10_000;

const ON_DEMAND = fieldsOf({
  source: v.optional(v.literal("sds", 'must be "sds": nothing else can be asked by name'), "sds"),
  ...SDS_ENTRIES,
  names: list(dnsName(), NAMES_LIMIT),
  suffixes: list(suffix(), NAMES_LIMIT),
  prefetch: list(text(), NAMES_LIMIT),
  defaultName: v.exactOptional(text()),
  maxEntries: v.exactOptional(number(1, 100_000)),
  negativeTtl: v.exactOptional(duration(0)),
  perSourceRate: v.exactOptional(number(1, 1_000_000)),
  maxPending: v.exactOptional(number(1, 100_000)),
  wait: v.exactOptional(duration(1)),
});

function onDemandPlan(reading: TlsReading): SchemaOf<OnDemandPlan> {
  return checked(ON_DEMAND, (found, report): OnDemandPlan | undefined => {
    const server = serverOf(found.cluster, { reading, report, path: ["cluster"] });
    const { names, suffixes, maxEntries, perSourceRate, maxPending } = found;
    const { negativeTtl: negativeTtlMs, wait: waitMs, api, prefetch, defaultName } = found;
    const limits = defined({ maxEntries, negativeTtlMs, perSourceRate, maxPending, waitMs });
    return server && {
      source: { kind: "sds", server, api },
      rules: { ...DEFAULT_ON_DEMAND_RULES, names, suffixes, ...limits },
      prefetch,
      ...defined({ defaultName }),
    };
  });
}

const DNS_NAME = /^(?=.{1,253}$)[a-z0-9_](?:[a-z0-9_-]{0,62})(?:\.[a-z0-9_](?:[a-z0-9_-]{0,62}))*$/;

function dnsName(): SchemaOf<string> {
  return reader((value, report) => {
    const lower = typeof value === "string" && value.length <= 253 ? value.toLowerCase() : "";
    return DNS_NAME.test(lower) ? lower : report([], "must be a DNS name without stars");
  });
}

/** `.example.com` or `*.example.com`. */
function suffix(): SchemaOf<string> {
  return reader((value, report) => {
    const lower = typeof value === "string" && value.length <= 255 ? value.toLowerCase() : "";
    const match = /^\*?\.(.+)$/.exec(lower);
    if (match?.[1] !== undefined && DNS_NAME.test(match[1])) return `.${match[1]}`;
    return report([], 'must be a suffix of DNS names such as ".example.com"');
  });
}
