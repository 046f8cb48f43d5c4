/** Envoy's TLS contexts as pasted; a setting that is not supported is refused by its path. @module */

import * as v from "valibot";
import {
  checked,
  defined,
  flag,
  isRecord,
  list,
  type Report,
  type SchemaOf,
  text,
} from "../../base/schema.ts";
import { NO_RULES } from "../../identity/mod.ts";
import { anyOf, choice, message, number } from "../envoy/message.ts";
import {
  DEFAULT_ON_DEMAND_RULES,
  INITIAL_FETCH_TIMEOUT_MS,
  type OnDemandPlan,
  type SecretRef,
  type ValidationRef,
} from "../model/plan.ts";
import { CERTIFICATES_LIMIT, type TlsForm, type TlsReading } from "./sources.ts";
import type { TlsDirection } from "../../snapshot/mod.ts";
import { tlsCertificate } from "../envoy/envoy_secret.ts";
import { validationContext } from "../envoy/validation_context.ts";
import type { DataSource, SecretSpec, ValidationSpec } from "../model/secret.ts";
import { configSource, sdsSecretConfig } from "./config_source.ts";
import { decides } from "./file_secrets.ts";
import { envoyParameters } from "./tls_parameters.ts";

const MARKS = [
  "@type",
  "common_tls_context",
  "commonTlsContext",
  "transport_socket",
  "transportSocket",
  "typed_config",
  "typedConfig",
];
const TYPES = "envoy.extensions.transport_sockets.tls.v3.";
const SOCKET_NAMES = ["envoy.transport_sockets.tls", "tls"];

export function isEnvoyForm(value: unknown): boolean {
  return isRecord(value) && MARKS.some((mark) => Object.hasOwn(value, mark));
}

export function envoyForm(reading: TlsReading): SchemaOf<TlsForm> {
  const own = reading.kind === "listener" ? "DownstreamTlsContext" : "UpstreamTlsContext";
  const bare = reading.kind === "listener" ? downstreamContext(reading) : upstreamContext(reading);
  const typed = anyOf({ [TYPES + own]: bare });
  const socket = transportSocket(typed);
  const wrapped = checked(message({ transportSocket: socket }), (found) => found.transportSocket);
  return v.lazy((value) => {
    const has = (...keys: string[]) =>
      isRecord(value) && keys.some((key) => Object.hasOwn(value, key));
    if (has("transport_socket", "transportSocket")) return wrapped;
    if (has("typed_config", "typedConfig")) return socket;
    return has("@type") ? typed : bare;
  });
}

function transportSocket<T>(typed: SchemaOf<T>): SchemaOf<T> {
  const fields = message({
    name: v.exactOptional(v.picklist(SOCKET_NAMES, "must be envoy.transport_sockets.tls")),
    typedConfig: typed,
  });
  // The type of a generic schema's field includes undefined, although the field is required.
  return checked(fields, (found) => found.typedConfig as T);
}

function downstreamContext(reading: TlsReading): SchemaOf<TlsForm> {
  const own = "cannot be honoured: the TLS library makes its own keys for session tickets";
  const fields = message({
    commonTlsContext: commonContext(reading),
    requireClientCertificate: v.optional(flag(), false),
    disableStatelessSessionResumption: v.exactOptional(flag()),
    disableStatefulSessionResumption: v.exactOptional(flag()),
    ocspStaplePolicy: v.optional(
      choice({ LENIENT_STAPLING: [0, true], STRICT_STAPLING: [1, false], MUST_STAPLE: [2, false] }),
      "LENIENT_STAPLING",
    ),
  }, {
    refused: {
      sessionTicketKeys: own,
      sessionTicketKeysSdsSecretConfig: own,
      sessionTimeout: own,
      requireSni: "cannot be honoured: it is not of any release of Envoy either",
      fullScanCertsOnSniMismatch: "cannot be honoured: where no name fits, the first is shown",
      preferClientCiphers: "cannot be honoured: the server's order of suites decides",
    },
  });
  return checked(fields, (found, report): TlsForm | undefined => {
    const { certificates, validation, onDemand, ...tls } = found.commonTlsContext;
    const isRequired = found.requireClientCertificate;
    if (!found.ocspStaplePolicy) {
      report(["ocsp_staple_policy"], "cannot be honoured: only LENIENT_STAPLING is known");
    }
    if (found.disableStatelessSessionResumption || found.disableStatefulSessionResumption) {
      reading.warn("resumption stays enabled: a resumed session's client is judged again");
    }
    if (certificates.length === 0 && !onDemand) {
      report(["common_tls_context"], "has no certificate, and a listener shows one");
    }
    const trust = validation === "no_rules" ? null : validation;
    if (isRequired && !trust) {
      return report(
        ["require_client_certificate"],
        "needs a validation context that says whom to accept; to accept anyone, say " +
          "trust_chain_verification: ACCEPT_UNTRUSTED",
      );
    }
    // As in Envoy, pins and matchers demand a certificate.
    const isAlways = isRequired || (trust !== null && demandsCertificate(trust));
    // Envoy's SPIFFE validator demands one, too; whether it is used is not known before the secret comes.
    const mayBeSpiffe = !isAlways && trust !== null && trust.secret.source.kind !== "spec";
    return {
      plan: {
        certificates,
        validation: trust,
        requireClientCertificate: isAlways,
        ...(mayBeSpiffe && { requireForSpiffe: true }),
        onDemand,
        ...tls,
      },
    };
  });
}

function upstreamContext(reading: TlsReading): SchemaOf<TlsForm> {
  const sanFix = "cannot be honoured: give sni and match_typed_subject_alt_names";
  const fields = message({
    commonTlsContext: commonContext(reading),
    sni: v.exactOptional(
      v.pipe(v.string("must be a text"), v.maxLength(255, "is longer than 255")),
    ),
    // The limit of Envoy's client cache; ours has its own size.
    maxSessionKeys: v.exactOptional(number(0, 4_294_967_295)),
    enforceRsaKeyUsage: v.exactOptional(
      v.literal(true, "must be true: the usage of keys is always enforced"),
    ),
  }, {
    refused: {
      allowRenegotiation: "cannot be honoured: nothing is renegotiated",
      autoHostSni: sanFix,
      autoSniSanValidation: sanFix,
    },
  });
  return checked(fields, ({ commonTlsContext, sni }, report): TlsForm | undefined => {
    const { certificates, validation, onDemand, ...tls } = commonTlsContext;
    if (certificates.length > 1) {
      report(["common_tls_context"], "has several certificates; an upstream is shown one");
    }
    if (onDemand) {
      report(
        ["common_tls_context", "custom_tls_certificate_selector"],
        "cannot be honoured for an upstream; use static_name.v3.StaticName as certificate_mapper",
      );
    }
    if (!validation || validation === "no_rules") {
      return report(
        ["common_tls_context"],
        "has no validation context that says whom to accept; to accept any server, say " +
          "validation_context: { trust_chain_verification: ACCEPT_UNTRUSTED }",
      );
    }
    return {
      plan: { certificates, validation, requireClientCertificate: true, onDemand: null, ...tls },
      ...(sni && { sni }),
    };
  });
}

/** Whether Envoy refuses a client without a certificate by these rules. */
function demandsCertificate({ secret, defaults }: ValidationRef): boolean {
  const own = secret.source.kind === "spec" && secret.source.spec.type === "validation"
    ? secret.source.spec
    : undefined;
  return [own, defaults].some((spec) => {
    const { matchers, spkiPins, certificateHashes } = spec?.rules ?? NO_RULES;
    return spec?.spiffe !== undefined ||
      matchers.length + spkiPins.length + certificateHashes.length > 0;
  });
}

interface CommonContext {
  readonly certificates: readonly SecretRef[];
  /** `no_rules`: given without any rule; `null`: not given. */
  readonly validation: ValidationRef | "no_rules" | null;
  readonly onDemand: OnDemandPlan | null;
  readonly tls?: TlsDirection;
}

function commonContext(reading: TlsReading): SchemaOf<CommonContext> {
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
      ? tlsCertificates.map((spec) => inlineRef(spec.chain ?? spec.pkcs12, spec))
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
  if (decides(spec)) return { secret: inlineRef(spec.trustedCa, spec) };
  // Matchers and lists without roots would only seem to check something.
  if (spec.rules.matchers.length > 0 || spec.crl || spec.watchedDirectory) {
    report(["validation_context"], "has no trusted_ca, without which its rules check nothing");
  }
  return "no_rules";
}

/** A secret in the configuration itself is read once, as in Envoy, unless it has a watched directory. */
function inlineRef(source: DataSource | undefined, spec: SecretSpec): SecretRef {
  return {
    type: spec.type,
    name: source?.kind === "file" ? source.path : "inline",
    source: { kind: "spec", spec, watch: spec.watchedDirectory !== undefined },
    initialFetchTimeoutMs: INITIAL_FETCH_TIMEOUT_MS,
  };
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
