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
import { fieldsOf } from "../envoy/message.ts";
import {
  checked,
  defined,
  flag,
  isRecord,
  list,
  type Report,
  type SchemaOf,
  tagged,
} from "../../base/schema.ts";
import type { OnDemandPlan, SecretRef, ValidationRef } from "../plan.ts";
import { FILE_CERTIFICATE_ENTRIES, fileCertificateRef, saysPair } from "./file_certificate.ts";
import {
  FILE_VALIDATION_ENTRIES,
  fileValidationRef,
  RULE_ENTRIES,
  withRules,
} from "./file_validation.ts";
import { onDemandPlan } from "./on_demand_plan.ts";
import {
  CERTIFICATES_LIMIT,
  consulRef,
  SDS_SECRET_ENTRIES,
  sdsRef,
  WORKLOAD_ENTRIES,
  workloadRef,
} from "./sources.ts";
import type { TlsForm, TlsReading } from "./tls_context.ts";
import { parametersOf, VERSION_ENTRIES } from "./tls_parameters.ts";

/** What any form may have besides. */
const COMMON_ENTRIES = {
  requireClientCertificate: v.exactOptional(flag()),
  ...VERSION_ENTRIES,
};

interface Parts {
  readonly certificates: readonly SecretRef[];
  readonly validation: ValidationRef | null;
  readonly onDemand: OnDemandPlan | null;
  readonly common: v.InferOutput<v.ObjectSchema<typeof COMMON_ENTRIES, undefined>>;
}

export function nativeForm(reading: TlsReading): SchemaOf<TlsForm> {
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
    const unsaid = onDemand ? [] : [consulRef("certificate")];
    const said = several ?? (one === undefined ? unsaid : [one]);
    return {
      certificates: said.filter((ref) => ref !== null),
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
      const pair = saysPair(found);
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
      // What is wrong with the socket was said once.
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

/** `null`: said to be none. */
function certificate(reading: TlsReading): SchemaOf<SecretRef | null> {
  return bySource<SecretRef | null>({
    consul: checked(fieldsOf({}), () => consulRef("certificate")),
    none: checked(fieldsOf({}), () => null),
    file: checked(fieldsOf(FILE_CERTIFICATE_ENTRIES), fileCertificateRef),
    sds: checked(fieldsOf(SDS_SECRET_ENTRIES), sdsRef("certificate", reading)),
    workload: checked(fieldsOf(WORKLOAD_ENTRIES), workloadRef("certificate", reading)),
  });
}

/** `null`: said to be none. */
function validation(reading: TlsReading): SchemaOf<ValidationRef | null> {
  const sds = sdsRef("validation", reading);
  const workload = workloadRef("validation", reading);
  return bySource<ValidationRef | null>({
    consul: checked(
      fieldsOf(RULE_ENTRIES),
      (found) => withRules(consulRef("validation"), found),
    ),
    none: checked(fieldsOf({}), () => null),
    file: checked(fieldsOf(FILE_VALIDATION_ENTRIES), fileValidationRef),
    sds: checked(fieldsOf({ ...SDS_SECRET_ENTRIES, ...RULE_ENTRIES }), (found, report) => {
      const secret = sds(found, report);
      return secret && withRules(secret, found);
    }),
    workload: checked(fieldsOf({ ...WORKLOAD_ENTRIES, ...RULE_ENTRIES }), (found, report) => {
      const secret = workload(found, report);
      return secret && withRules(secret, found);
    }),
  });
}

/** `sds`: what to say of SDS where it is none of the sources. */
function bySource<T>(
  schemas: Readonly<Record<string, SchemaOf<T>>>,
  sds?: string,
): SchemaOf<T> {
  const wanted = `must be ${Object.keys(schemas).join(", ")}`;
  return tagged("source", schemas, {
    wanted,
    hint: (name) => name === "sds" && sds ? sds : wanted,
  });
}

/** What no single field shows. */
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
