/** Secrets for `/config_dump`, by field: none is shown without a decision. @module */

import type { PeerRules, Validation } from "../../identity/mod.ts";
import type {
  CertificatePart,
  OwnCredentialsPart,
  Snapshot,
  ValidationPart,
} from "../../snapshot/mod.ts";
import type { SecretStatus } from "../../secrets/mod.ts";
import { REDACTED } from "../redact.ts";
import type { AdminView } from "../view.ts";

type Shown = Readonly<Record<string, unknown>>;

const TYPES = "type.googleapis.com/envoy";
const SECRET_TYPE = `${TYPES}.extensions.transport_sockets.tls.v3.Secret`;

/** Secrets that do not come from the agent; those from the agent are the snapshot's credentials. */
export function secretsConfigDump(view: AdminView): Shown {
  const snapshot = view.snapshot();
  const shown = { static: [] as Shown[], active: [] as Shown[], warming: [] as Shown[] };
  for (const status of view.secretsReport().statuses) {
    const secret = secretShown(status, snapshot);
    // These are part of the configuration itself: nothing outside can change them.
    const isStatic = /^(?:configuration$|environment )/.test(status.source);
    if (status.state !== "active") shown.warming.push(secret);
    else (isStatic ? shown.static : shown.active).push(secret);
  }
  return {
    "@type": `${TYPES}.admin.v3.SecretsConfigDump`,
    static_secrets: shown.static,
    dynamic_active_secrets: shown.active,
    dynamic_warming_secrets: shown.warming,
  };
}

/** Envoy's fields first; from `type` on they are ours. */
function secretShown(status: SecretStatus, snapshot: Snapshot | undefined): Shown {
  const { key, type, name, source, state, version, updatedMs, fault, certificate } = status;
  return {
    name,
    version_info: version,
    last_updated: updatedMs === 0 ? null : new Date(updatedMs).toISOString(),
    secret: { "@type": SECRET_TYPE, name, ...valueShown(key, snapshot) },
    ...(fault !== "" && { error_state: { details: fault } }),
    type,
    source,
    state,
    ...(certificate && {
      certificate: {
        serial: certificate.serial,
        dnsNames: certificate.dnsNames,
        uris: certificate.uris,
        notBeforeMs: certificate.notBeforeMs,
        notAfterMs: certificate.notAfterMs,
      },
    }),
  };
}

/** Empty for a secret that no listener or upstream uses: only the snapshot's parts are known here. */
function valueShown(key: string, snapshot: Snapshot | undefined): Shown {
  const part = snapshot?.certificates[key];
  if (part) {
    const chain = { inline_string: part.certPem };
    return { tls_certificate: { certificate_chain: chain, private_key: REDACTED } };
  }
  const validation = snapshot?.validations[key]?.validation;
  if (!validation) return {};
  switch (validation.kind) {
    case "mesh":
    case "ca":
      return { validation_context: { trusted_ca: { inline_string: joined(validation.rootPems) } } };
    case "spiffe": {
      const trust_domains = Object.entries(validation.bundles).map(([name, pems]) => ({
        name,
        trust_bundle: { inline_string: joined(pems) },
      }));
      return {
        validation_context: {
          custom_validator_config: {
            name: "envoy.tls.cert_validator.spiffe",
            typed_config: {
              "@type": `${TYPES}.extensions.transport_sockets.tls.v3.SPIFFECertValidatorConfig`,
              trust_domains,
            },
          },
        },
      };
    }
  }
}

export function secretPartsShown(snapshot: Snapshot): Shown {
  const { certificates, validations, ownCredentials } = snapshot;
  return {
    certificates: mapValues(certificates, certificateShown),
    validations: mapValues(validations, validationShown),
    ownCredentials: mapValues(ownCredentials, ownCredentialsShown),
  };
}

function certificateShown(part: CertificatePart): Shown {
  return {
    version: part.version,
    name: part.name,
    source: part.source,
    certPem: part.certPem,
    keyKind: part.keyKind,
    dnsNames: part.dnsNames,
    uris: part.uris,
    serial: part.serial,
    notBeforeMs: part.notBeforeMs,
    notAfterMs: part.notAfterMs,
  };
}

function validationShown({ version, name, source, validation }: ValidationPart): Shown {
  return { version, name, source, validation: rulesOf(validation) };
}

function rulesOf(validation: Validation): Shown {
  const { kind } = validation;
  switch (validation.kind) {
    case "mesh":
      return { kind, rootPems: validation.rootPems, trustDomains: validation.trustDomains };
    case "ca":
      return { kind, rootPems: validation.rootPems, rules: peerRulesShown(validation.rules) };
    case "spiffe":
      return { kind, bundles: validation.bundles, rules: peerRulesShown(validation.rules) };
  }
}

function peerRulesShown(rules: PeerRules): Shown {
  return {
    matchers: rules.matchers.map(({ type, oid, matcher }) => ({ type, oid, matcher })),
    spkiPins: rules.spkiPins,
    certificateHashes: rules.certificateHashes,
    crlPems: rules.crlPems,
    onlyLeafCrl: rules.onlyLeafCrl,
    maxDepth: rules.maxDepth,
    allowExpired: rules.allowExpired,
    acceptUntrusted: rules.acceptUntrusted,
  };
}

function ownCredentialsShown(part: OwnCredentialsPart): Shown {
  const { onDemand, tls } = part;
  return {
    version: part.version,
    certificates: part.certificates,
    validation: part.validation,
    missing: part.missing,
    requireClientCertificate: part.requireClientCertificate,
    onDemand: onDemand && {
      names: onDemand.names,
      suffixes: onDemand.suffixes,
      maxEntries: onDemand.maxEntries,
      negativeTtlMs: onDemand.negativeTtlMs,
      perSourceRate: onDemand.perSourceRate,
      maxPending: onDemand.maxPending,
      waitMs: onDemand.waitMs,
    },
    defaultName: part.defaultName,
    tls: tls && {
      minVersion: tls.minVersion,
      maxVersion: tls.maxVersion,
      cipherSuites: tls.cipherSuites,
    },
    trustDomains: part.trustDomains,
  };
}

function mapValues<T>(record: Readonly<Record<string, T>>, show: (value: T) => Shown): Shown {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, show(value)]));
}

function joined(pems: readonly string[]): string {
  return pems.map((pem) => `${pem.trimEnd()}\n`).join("");
}
