/**
 * Envoy's `CommonTlsContext`: certificates, whom to accept, and TLS parameters.
 *
 * @module
 */

import * as v from "valibot";
import { tlsCertificate } from "../envoy/tls_certificate.ts";
import { message } from "../envoy/message.ts";
import { checked, defined, list, type Report, type SchemaOf } from "../../base/schema.ts";
import { validationContext } from "../envoy/validation_context.ts";
import type { SecretRef, ValidationRef } from "../plan.ts";
import type { TlsDirection } from "../../snapshot/mod.ts";
import type { ValidationSpec } from "../spec.ts";
import { type CertificateSelector, certificateSelector } from "./certificate_selector.ts";
import { inlineRef, sdsSecretConfig } from "./config_source.ts";
import type { TlsReading } from "./tls_context.ts";
import { decides } from "./file_validation.ts";
import { CERTIFICATES_LIMIT } from "./sources.ts";
import { envoyParameters } from "./tls_parameters.ts";

/** `nobody`: given, and says nothing; `null`: not given. */
export type ValidationSource = ValidationRef | "nobody" | null;

export interface CommonContext {
  readonly certificates: readonly SecretRef[];
  readonly validation: ValidationSource;
  readonly tls: TlsDirection | undefined;
  readonly selector: CertificateSelector | undefined;
}

export function commonContext(reading: TlsReading): SchemaOf<CommonContext> {
  const provider = "cannot be honoured: give certificates and roots themselves, or SDS";
  const here = { allowFiles: true };
  const roots = sdsSecretConfig(reading, "validation");
  const fields = message({
    tlsParams: v.exactOptional(envoyParameters(reading)),
    tlsCertificates: list(tlsCertificate(here), CERTIFICATES_LIMIT),
    tlsCertificateSdsSecretConfigs: list(
      sdsSecretConfig(reading, "certificate"),
      CERTIFICATES_LIMIT,
    ),
    validationContext: v.exactOptional(validationContext(here)),
    validationContextSdsSecretConfig: v.exactOptional(roots),
    combinedValidationContext: v.exactOptional(message({
      defaultValidationContext: validationContext(here),
      validationContextSdsSecretConfig: roots,
    }, {
      refused: {
        validationContextCertificateProvider: provider,
        validationContextCertificateProviderInstance: provider,
      },
    })),
    customTlsCertificateSelector: v.exactOptional(certificateSelector(reading)),
  }, {
    atMostOne: [
      "validationContext",
      "validationContextSdsSecretConfig",
      "combinedValidationContext",
    ],
    refused: {
      alpnProtocols: "cannot be honoured: no protocol is negotiated; leave it out",
      customHandshaker: "cannot be honoured: no extension is loaded here",
      keyLog: "cannot be honoured: secrets of connections are not written down",
      tlsCertificateProviderInstance: provider,
      tlsCertificateCertificateProvider: provider,
      tlsCertificateCertificateProviderInstance: provider,
      validationContextCertificateProvider: provider,
      validationContextCertificateProviderInstance: provider,
    },
  });
  return checked(fields, (found, report): CommonContext => {
    const { tlsCertificates, customTlsCertificateSelector: selector } = found;
    const fromSds = found.tlsCertificateSdsSecretConfigs;
    if (tlsCertificates.length > 0 && fromSds.length > 0) {
      reading.warn("tls_certificate_sds_secret_configs are not used beside tls_certificates");
    }
    const given = tlsCertificates.length > 0
      ? tlsCertificates.map((spec) => inlineRef(nameOf(spec.chain ?? spec.pkcs12), spec))
      : fromSds;
    if (selector && given.length > 0) {
      report(["custom_tls_certificate_selector"], "cannot be beside certificates of other kinds");
    }
    const combined = found.combinedValidationContext;
    const secret = (combined ?? found).validationContextSdsSecretConfig;
    const defaults = combined?.defaultValidationContext;
    return {
      certificates: selector?.kind === "certificate" ? [selector.ref] : given,
      validation: secret
        ? { secret, ...defined({ defaults }) }
        : trustOf(found.validationContext, report),
      tls: found.tlsParams?.tls,
      selector,
    };
  });
}

function trustOf(spec: ValidationSpec | undefined, report: Report): ValidationSource {
  if (!spec) return null;
  if (decides(spec)) return { secret: inlineRef(nameOf(spec.trustedCa), spec) };
  // Matchers and lists without roots would seem to check something and would not.
  if (spec.rules.matchers.length > 0 || spec.crl || spec.watchedDirectory) {
    report(["validation_context"], "has no trusted_ca, without which its rules check nothing");
  }
  return "nobody";
}

function nameOf(source: { readonly kind: string; readonly path?: string } | undefined): string {
  return source?.path ?? "inline";
}
