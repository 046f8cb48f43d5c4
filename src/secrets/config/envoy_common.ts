/**
 * Envoy's `CommonTlsContext`: certificates, validation and TLS parameters.
 *
 * @module
 */

import * as v from "valibot";
import { checked, defined, list, type Report, type SchemaOf, text } from "../../base/schema.ts";
import type { TlsDirection } from "../../snapshot/mod.ts";
import { anyOf, message } from "../envoy/message.ts";
import { tlsCertificate } from "../envoy/envoy_secret.ts";
import { validationContext } from "../envoy/validation_context.ts";
import {
  DEFAULT_ON_DEMAND_RULES,
  type OnDemandPlan,
  type SecretRef,
  type ValidationRef,
} from "../model/plan.ts";
import type { ValidationSpec } from "../model/secret.ts";
import { configSource, inlineRef, sdsSecretConfig } from "./config_source.ts";
import { decides } from "./file_secrets.ts";
import { CERTIFICATES_LIMIT, type TlsReading } from "./sources.ts";
import { envoyParameters } from "./tls_parameters.ts";

interface CommonContext {
  readonly certificates: readonly SecretRef[];
  /** `no_rules`: given without any rule; `null`: not given. */
  readonly validation: ValidationRef | "no_rules" | null;
  readonly onDemand: OnDemandPlan | null;
  readonly tls?: TlsDirection;
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
    const { certificate, onDemand = null } = selector ?? {};
    return {
      certificates: certificate ? [certificate] : given,
      validation: secret
        ? { secret, ...defined({ defaults }) }
        : inlineValidation(found.validationContext, report),
      onDemand,
      ...defined({ tls: found.tlsParams?.tls }),
    };
  });
}

function inlineValidation(
  spec: ValidationSpec | undefined,
  report: Report,
): CommonContext["validation"] {
  if (!spec) return null;
  if (decides(spec)) return { secret: inlineRef(nameOf(spec.trustedCa), spec) };
  // Matchers and lists without roots would only seem to check something.
  if (spec.rules.matchers.length > 0 || spec.crl || spec.watchedDirectory) {
    report(["validation_context"], "has no trusted_ca, without which its rules check nothing");
  }
  return "no_rules";
}

function nameOf(source: { readonly kind: string; readonly path?: string } | undefined): string {
  return source?.path ?? "inline";
}

const EXTENSIONS = "envoy.extensions.transport_sockets.tls.";

/** Maps a client to the secret's name: its SNI, with a default, or one fixed name. */
const MAPPER = message({
  name: text(),
  typedConfig: anyOf<{ readonly name: string } | { readonly defaultName?: string }>({
    [`${EXTENSIONS}cert_mappers.sni.v3.SNI`]: checked(
      message({ defaultValue: v.exactOptional(text()) }),
      ({ defaultValue: defaultName }) => defined({ defaultName }),
    ),
    [`${EXTENSIONS}cert_mappers.static_name.v3.StaticName`]: message({ name: text() }),
  }),
});

/** Envoy's certificate selector with secrets on demand. A fixed name is an ordinary certificate. */
function certificateSelector(
  reading: TlsReading,
): SchemaOf<{ readonly certificate?: SecretRef; readonly onDemand?: OnDemandPlan }> {
  const config = message({
    configSource: configSource(reading),
    certificateMapper: MAPPER,
    prefetchSecretNames: list(text(), 10_000),
  });
  const fields = message({
    name: text(),
    typedConfig: anyOf({ [`${EXTENSIONS}cert_selectors.on_demand_secret.v3.Config`]: config }),
  });
  return checked(fields, ({ typedConfig }, report) => {
    const { configSource: { source, initialFetchTimeoutMs }, prefetchSecretNames } = typedConfig;
    const mapper = typedConfig.certificateMapper.typedConfig;
    if ("name" in mapper) {
      return { certificate: { type: "certificate", ...mapper, source, initialFetchTimeoutMs } };
    }
    if (source.kind !== "sds") {
      return report(
        ["typed_config", "config_source"],
        "must be api_config_source: a file holds one secret of one name",
      );
    }
    const rules = DEFAULT_ON_DEMAND_RULES;
    return { onDemand: { source, rules, prefetch: prefetchSecretNames, ...mapper } };
  });
}
