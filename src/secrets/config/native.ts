/**
 * Our own form of a listener's or upstream's credentials: one line for the common case, or certificate
 * and validation with a source each.
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
  flag,
  follow,
  isRecord,
  list,
  message,
  type Reader,
  reader,
  type Report,
} from "../envoy/message.ts";
import type { OnDemandPlan, SecretRef, ValidationRef } from "../plan.ts";
import type { Reading, TlsForm } from "./tls_context.ts";
import { FILE_CERTIFICATE_ENTRIES, fileCertificateRef } from "./file_certificate.ts";
import {
  FILE_VALIDATION_ENTRIES,
  fileValidationRef,
  RULE_ENTRIES,
  withRules,
} from "./file_validation.ts";
import { ON_DEMAND, onDemandPlan } from "./on_demand_plan.ts";
import {
  CERTIFICATES_LIMIT,
  consulRef,
  SDS_SECRET_ENTRIES,
  sdsRef,
  WORKLOAD_ENTRIES,
  workloadRef,
} from "./sources.ts";
import { parametersOf, VERSION_ENTRIES } from "./tls_parameters.ts";

const NAMES = { names: "camelCase" } as const;

/** What any form may have besides. */
const COMMON_ENTRIES = {
  requireClientCertificate: v.optional(flag()),
  ...VERSION_ENTRIES,
};

type Common = v.InferOutput<v.ObjectSchema<typeof COMMON_ENTRIES, undefined>>;

export function nativeForm(reading: Reading): Reader<TlsForm> {
  const whole = structured(reading);
  const line = oneLine(reading);
  return reader((value, report) => {
    const schema = isRecord(value) && Object.hasOwn(value, "source") ? line : whole;
    return follow(schema, value, { report });
  });
}

/** `none`: said to be none; `undefined`: not said. */
type Said<T> = { readonly said: "none" } | { readonly said: "this"; readonly value: T };

function structured(reading: Reading): Reader<TlsForm> {
  const fields = message({
    certificate: v.optional(certificate(reading)),
    certificates: v.optional(list(certificate(reading), CERTIFICATES_LIMIT)),
    validation: v.optional(validation(reading)),
    onDemand: v.optional(onDemand(reading)),
    ...COMMON_ENTRIES,
  }, NAMES);
  return checked(fields, (found, report): TlsForm | undefined => {
    if (found.certificate && found.certificates) {
      report(["certificates"], "cannot be beside certificate; put all of them here");
    }
    const said = found.certificates ?? (found.certificate ? [found.certificate] : undefined);
    const given = said?.flatMap((one) => one.said === "this" ? [one.value] : []);
    const onDemand = found.onDemand ?? null;
    const certificates = given ?? (onDemand ? [] : [consulRef("certificate")]);
    const trust = found.validation;
    return formOf({
      certificates,
      validation: !trust
        ? { secret: consulRef("validation") }
        : trust.said === "none"
        ? null
        : trust.value,
      onDemand,
      common: found,
    }, { reading, report });
  });
}

/** One source for the whole listener or upstream. */
function oneLine(reading: Reading): Reader<TlsForm> {
  const { validation: filesOnly, certificate: pairOnly } = ONE_LINE_FILE;
  return bySource({
    consul: checked(message({ ...RULE_ENTRIES, ...COMMON_ENTRIES }, NAMES), (found, report) => {
      const certificates = [consulRef("certificate")];
      const validation = withRules(consulRef("validation"), found);
      return formOf({ certificates, validation, onDemand: null, common: found }, {
        reading,
        report,
      });
    }),
    file: checked(
      message({ ...FILE_CERTIFICATE_ENTRIES, ...FILE_VALIDATION_ENTRIES, ...COMMON_ENTRIES }, {
        ...NAMES,
        refused: {
          secretFile: 'holds one secret; say "certificate" or "validation" around it',
          name: 'goes with secretFile, which is inside "certificate" or "validation"',
        },
      }),
      (found, report) => {
        const pair = pairOnly.some((field) => found[field] !== undefined);
        const roots = filesOnly.some((field) =>
          found[field] !== undefined && found[field] !== false
        );
        if (!pair && !roots) report(["cert"], "is missing; or ca, or both");
        const certificate = pair ? fileCertificateRef(found, report) : consulRef("certificate");
        const validation = roots
          ? fileValidationRef(found, report)
          : withRules(consulRef("validation"), found);
        if (!certificate || !validation) return undefined;
        const certificates = [certificate];
        return formOf({ certificates, validation, onDemand: null, common: found }, {
          reading,
          report,
        });
      },
    ),
    workload: checked(
      message({ ...WORKLOAD_ENTRIES, ...RULE_ENTRIES, ...COMMON_ENTRIES }, NAMES),
      (found, report) => {
        const ref = (type: SecretRef["type"]) =>
          workloadRef(found, { type, context: reading, report });
        const certificate = ref("certificate");
        // What is wrong with the socket was said once.
        const secret = certificate && ref("validation");
        if (!certificate || !secret) return undefined;
        return formOf({
          certificates: [certificate],
          validation: withRules(secret, found),
          onDemand: null,
          common: found,
        }, { reading, report });
      },
    ),
  }, 'holds one secret a name; say "certificate" and "validation" with a source each');
}

/** Fields that say that the certificate, or whom to accept, is in the files. */
const ONE_LINE_FILE = {
  certificate: ["cert", "key", "pkcs12", "keyPassword", "keyPasswordFile", "ocspStaple"],
  validation: ["ca", "trustBundles", "systemRoots", "acceptUntrusted"],
} as const;

function certificate(reading: Reading): Reader<Said<SecretRef>> {
  const type = "certificate";
  return bySource<Said<SecretRef>>({
    consul: checked(message({}, NAMES), () => ({ said: "this", value: consulRef(type) })),
    none: checked(message({}, NAMES), () => ({ said: "none" })),
    file: checked(
      message(FILE_CERTIFICATE_ENTRIES, NAMES),
      (found, report) => said(fileCertificateRef(found, report)),
    ),
    sds: checked(
      message(SDS_SECRET_ENTRIES, NAMES),
      (found, report) => said(sdsRef(found, { type, context: reading, report })),
    ),
    workload: checked(
      message(WORKLOAD_ENTRIES, NAMES),
      (found, report) => said(workloadRef(found, { type, context: reading, report })),
    ),
  });
}

function validation(reading: Reading): Reader<Said<ValidationRef>> {
  const type = "validation";
  return bySource<Said<ValidationRef>>({
    consul: checked(
      message(RULE_ENTRIES, NAMES),
      (found) => said(withRules(consulRef(type), found)),
    ),
    none: checked(message({}, NAMES), () => ({ said: "none" })),
    file: checked(
      message(FILE_VALIDATION_ENTRIES, NAMES),
      (found, report) => said(fileValidationRef(found, report)),
    ),
    sds: checked(message({ ...SDS_SECRET_ENTRIES, ...RULE_ENTRIES }, NAMES), (found, report) => {
      const secret = sdsRef(found, { type, context: reading, report });
      return secret && said(withRules(secret, found));
    }),
    workload: checked(message({ ...WORKLOAD_ENTRIES, ...RULE_ENTRIES }, NAMES), (found, report) => {
      const secret = workloadRef(found, { type, context: reading, report });
      return secret && said(withRules(secret, found));
    }),
  });
}

function onDemand(reading: Reading): Reader<OnDemandPlan> {
  return checked(ON_DEMAND, (found, report) => onDemandPlan(found, { context: reading, report }));
}

function said<T>(value: T | undefined): Said<T> | undefined {
  return value && { said: "this", value };
}

/** Chooses by `source`; the schemas do not see it. */
function bySource<T>(
  schemas: Readonly<Record<string, Reader<T>>>,
  hint?: string,
): Reader<T> {
  const wanted = `must be ${Object.keys(schemas).join(", ")}`;
  return reader((value, report) => {
    if (!isRecord(value)) return report([], "must be an object");
    const { source, ...fields } = value;
    if (source === undefined) return report(["source"], `is missing; it ${wanted}`);
    const name = typeof source === "string" ? source : "";
    const schema = Object.hasOwn(schemas, name) ? schemas[name] : undefined;
    if (schema) return follow(schema, fields, { report });
    return report(["source"], name === "sds" && hint ? hint : wanted);
  });
}

/** What no single field shows. */
function formOf(
  form: {
    readonly certificates: readonly SecretRef[];
    readonly validation: ValidationRef | null;
    readonly onDemand: OnDemandPlan | null;
    readonly common: Common;
  },
  { reading, report }: { readonly reading: Reading; readonly report: Report },
): TlsForm {
  const { certificates, validation, onDemand, common } = form;
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
  const tls = parametersOf(common, report);
  return {
    plan: {
      certificates,
      validation,
      requireClientCertificate: validation !== null && (required ?? true),
      onDemand,
      ...(tls && { tls }),
    },
  };
}
