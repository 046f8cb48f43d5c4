/** Envoy's TLS contexts for tests, in snippets. @module */

export const TYPES = "type.googleapis.com/envoy.extensions.transport_sockets.tls";

export const PAIR = {
  certificate_chain: { filename: "web.pem" },
  private_key: { filename: "web.key" },
};
export const TRUST = { trusted_ca: { filename: "ca.pem" } };
export const GRPC = {
  api_config_source: {
    api_type: "GRPC",
    transport_api_version: "V3",
    grpc_services: [{ envoy_grpc: { cluster_name: "sds_cluster" } }],
  },
  resource_api_version: "V3",
};
export const DELTA = {
  api_config_source: { ...GRPC.api_config_source, api_type: "DELTA_GRPC" },
};
export const onDemand = (mapper: object, fields: object = {}): object => ({
  name: "on-demand-config",
  typed_config: {
    "@type": `${TYPES}.cert_selectors.on_demand_secret.v3.Config`,
    config_source: DELTA,
    certificate_mapper: { name: "mapper", typed_config: mapper },
    ...fields,
  },
});
export const SNI = {
  "@type": `${TYPES}.cert_mappers.sni.v3.SNI`,
  default_value: "fallback.example",
};
export const STATIC = { "@type": `${TYPES}.cert_mappers.static_name.v3.StaticName`, name: "web" };
export const listener = (common: object, fields: object = {}): object => ({
  common_tls_context: common,
  ...fields,
});
export const withPair = (common: object, fields: object = {}): object =>
  listener({ tls_certificates: [PAIR], ...common }, fields);
