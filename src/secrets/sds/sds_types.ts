/**
 * The part of Envoy's xDS API (v3) that a client of SDS needs: messages and fields by their numbers, so that
 * they mean the same on the wire. What is left out is skipped when it arrives.
 *
 * @module
 */

import { Protobuf } from "../../wire/mod.ts";

const GOOGLE = {
  Any: { type_url: "1 string", value: "2 bytes" },
  Duration: { seconds: "1 int64", nanos: "2 int32" },
  UInt32Value: { value: "1 uint32" },
  BoolValue: { value: "1 bool" },
  Empty: {},
  Status: { code: "1 int32", message: "2 string" },
  Struct: { fields: "1 map Value" },
  Value: {
    null_value: "1 oneof int32",
    number_value: "2 oneof double",
    string_value: "3 oneof string",
    bool_value: "4 oneof bool",
    struct_value: "5 oneof Struct",
    list_value: "6 oneof ListValue",
  },
  ListValue: { values: "1 repeated Value" },
} as const;

/** envoy.config.core.v3 */
const CORE = {
  Locality: { region: "1 string", zone: "2 string", sub_zone: "3 string" },
  Node: {
    id: "1 string",
    cluster: "2 string",
    metadata: "3 Struct",
    locality: "4 Locality",
    user_agent_name: "6 string",
    // Never user_agent_build_version (8): SPIRE takes one below 1.18 for an old Envoy.
    user_agent_version: "7 string",
  },
  WatchedDirectory: { path: "1 string", watch_modify: "2 bool" },
  DataSource: {
    filename: "1 oneof string",
    inline_bytes: "2 oneof bytes",
    inline_string: "3 oneof string",
    environment_variable: "4 oneof string",
    watched_directory: "5 WatchedDirectory",
  },
  TypedExtensionConfig: { name: "1 string", typed_config: "2 Any" },
} as const;

/** envoy.service.discovery.v3 */
const DISCOVERY = {
  DiscoveryRequest: {
    version_info: "1 string",
    node: "2 Node",
    resource_names: "3 repeated string",
    type_url: "4 string",
    response_nonce: "5 string",
    error_detail: "6 Status",
  },
  DiscoveryResponse: {
    version_info: "1 string",
    resources: "2 repeated Any",
    type_url: "4 string",
    nonce: "5 string",
  },
  DeltaDiscoveryRequest: {
    node: "1 Node",
    type_url: "2 string",
    resource_names_subscribe: "3 repeated string",
    resource_names_unsubscribe: "4 repeated string",
    initial_resource_versions: "5 map string",
    response_nonce: "6 string",
    error_detail: "7 Status",
  },
  DeltaDiscoveryResponse: {
    system_version_info: "1 string",
    resources: "2 repeated Resource",
    type_url: "4 string",
    nonce: "5 string",
    removed_resources: "6 repeated string",
  },
  Resource: { version: "1 string", resource: "2 Any", name: "3 string", ttl: "6 Duration" },
} as const;

/** envoy.extensions.transport_sockets.tls.v3 */
const TLS = {
  Secret: {
    name: "1 string",
    tls_certificate: "2 oneof TlsCertificate",
    session_ticket_keys: "3 oneof Empty",
    validation_context: "4 oneof CertificateValidationContext",
    generic_secret: "5 oneof Empty",
  },
  /** The same message, where only its name is wanted. */
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
} as const;

/** envoy.type.matcher.v3 */
const MATCHER = {
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
} as const;

export const SDS_PROTOBUF: Protobuf = new Protobuf({
  ...GOOGLE,
  ...CORE,
  ...DISCOVERY,
  ...TLS,
  ...MATCHER,
});
