/**
 * Messages of the gRPC services that Consul's servers offer to data planes, as far as a proxy needs them;
 * field numbers are those of Consul's published `.proto` files.
 *
 * @module
 */

import { Protobuf } from "../../wire/mod.ts";

export const SERVERS_PROTOBUF: Protobuf = new Protobuf({
  // hashicorp.consul.dataplane
  SupportedFeatures: { supported_dataplane_features: "1 repeated FeatureSupport" },
  FeatureSupport: {
    feature_name:
      "1 enum UNSPECIFIED WATCH_SERVERS EDGE_CERTIFICATE_MANAGEMENT ENVOY_BOOTSTRAP_CONFIGURATION FIPS",
    supported: "2 bool",
  },
  BootstrapRequest: {
    node_name: "2 string",
    partition: "4 string",
    namespace: "5 string",
    proxy_id: "6 string",
  },
  BootstrapParams: {
    service: "2 string",
    namespace: "3 string",
    partition: "4 string",
    datacenter: "5 string",
    node_name: "8 string",
  },
  // hashicorp.consul.serverdiscovery
  ServersRequest: { wan: "1 bool" },
  ServerList: { servers: "1 repeated Server" },
  Server: { id: "1 string", address: "2 string", version: "3 string" },
  // hashicorp.consul.connectca
  RootList: { active_root_id: "1 string", trust_domain: "2 string", roots: "3 repeated Root" },
  Root: {
    id: "1 string",
    name: "2 string",
    // PEM.
    root_cert: "5 string",
    active: "7 bool",
  },
  SignRequest: { csr: "1 string" },
  Signed: { cert_pem: "2 string" },
});
