/** Envoy's `Secret` as a resource of the discovery protocol, in the shape of proto3's JSON. @module */

import { plainBytes, type PlainMessage, Protobuf } from "../../wire/mod.ts";
import { type ResourceType, XDS_TYPES } from "../../xds/mod.ts";

export const SDS_METHODS = {
  sotw: "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets",
  delta: "/envoy.service.secret.v3.SecretDiscoveryService/DeltaSecrets",
} as const;

const SPIFFE_TYPE_URL =
  "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.SPIFFECertValidatorConfig";

export const SDS_PROTOBUF: Protobuf = new Protobuf({
  ...XDS_TYPES,
  // google.protobuf
  UInt32Value: { value: "1 uint32" },
  BoolValue: { value: "1 bool" },
  Empty: {},
  // envoy.config.core.v3
  WatchedDirectory: { path: "1 string", watch_modify: "2 bool" },
  DataSource: {
    filename: "1 oneof string",
    inline_bytes: "2 oneof bytes",
    inline_string: "3 oneof string",
    environment_variable: "4 oneof string",
    watched_directory: "5 WatchedDirectory",
  },
  TypedExtensionConfig: { name: "1 string", typed_config: "2 Any" },
  // envoy.extensions.transport_sockets.tls.v3
  Secret: {
    name: "1 string",
    tls_certificate: "2 oneof TlsCertificate",
    session_ticket_keys: "3 oneof Empty",
    validation_context: "4 oneof CertificateValidationContext",
    generic_secret: "5 oneof Empty",
  },
  /** The same message, to read its name only. */
  SecretName: { name: "1 string" },
  TlsCertificate: {
    certificate_chain: "1 DataSource",
    private_key: "2 DataSource",
    password: "3 DataSource",
    ocsp_staple: "4 DataSource",
    private_key_provider: "6 Empty",
    watched_directory: "7 WatchedDirectory",
    pkcs12: "8 DataSource",
  },
  CertificateValidationContext: {
    trusted_ca: "1 DataSource",
    verify_certificate_hash: "2 repeated string",
    verify_certificate_spki: "3 repeated string",
    require_signed_certificate_timestamp: "6 BoolValue",
    crl: "7 DataSource",
    allow_expired_certificate: "8 bool",
    match_subject_alt_names: "9 repeated StringMatcher",
    trust_chain_verification: "10 enum VERIFY_TRUST_CHAIN ACCEPT_UNTRUSTED",
    watched_directory: "11 WatchedDirectory",
    custom_validator_config: "12 TypedExtensionConfig",
    ca_certificate_provider_instance: "13 Empty",
    only_verify_leaf_cert_crl: "14 bool",
    match_typed_subject_alt_names: "15 repeated SubjectAltNameMatcher",
    max_verify_depth: "16 UInt32Value",
    system_root_certs: "17 Empty",
    suppress_client_ca_list: "18 bool",
  },
  SubjectAltNameMatcher: {
    san_type: "1 enum SAN_TYPE_UNSPECIFIED EMAIL DNS URI IP_ADDRESS OTHER_NAME",
    matcher: "2 StringMatcher",
    oid: "3 string",
  },
  SPIFFECertValidatorConfig: {
    trust_domains: "1 repeated TrustDomain",
    trust_bundles: "2 DataSource",
  },
  TrustDomain: {
    name: "1 string",
    trust_bundle: "2 DataSource",
    workload_trust_domain: "3 string",
  },
  // envoy.type.matcher.v3
  StringMatcher: {
    exact: "1 oneof string",
    prefix: "2 oneof string",
    suffix: "3 oneof string",
    safe_regex: "5 oneof RegexMatcher",
    ignore_case: "6 bool",
    contains: "7 oneof string",
    custom: "8 oneof TypedExtensionConfig",
  },
  RegexMatcher: { regex: "2 string" },
});

export const SECRET_RESOURCE: ResourceType<PlainMessage> = {
  typeUrl: "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
  service: "SDS",
  noun: "secret",
  nameOf: (bytes) => String(SDS_PROTOBUF.decode("SecretName", bytes).name ?? ""),
  read(bytes) {
    const secret = SDS_PROTOBUF.decode("Secret", bytes);
    const { validation_context: context } = secret;
    return isMessage(context) ? { ...secret, validation_context: plainContext(context) } : secret;
  },
};

/** A wrapper becomes its value, and a message in an `Any` has its fields beside its type. */
function plainContext(context: PlainMessage): PlainMessage {
  const plain: Record<string, unknown> = { ...context };
  const {
    max_verify_depth: depth,
    require_signed_certificate_timestamp: timestamp,
    custom_validator_config: extension,
  } = context;
  if (isMessage(depth)) plain.max_verify_depth = depth.value ?? 0;
  if (isMessage(timestamp)) plain.require_signed_certificate_timestamp = timestamp.value ?? false;
  if (isMessage(extension)) plain.custom_validator_config = plainExtension(extension);
  return plain;
}

function plainExtension(extension: PlainMessage): PlainMessage {
  const { typed_config: any } = extension;
  if (!isMessage(any)) return extension;
  const { type_url: type, value } = any;
  const fields = type === SPIFFE_TYPE_URL
    ? SDS_PROTOBUF.decode("SPIFFECertValidatorConfig", plainBytes(value))
    : {};
  return { ...extension, typed_config: { ...fields, "@type": type ?? "" } };
}

function isMessage(value: unknown): value is PlainMessage {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
