/**
 * Messages of the gRPC services that Consul's servers have for proxies, for the serving side. Names and
 * numbers are those of Consul's public interface (proto-public 0.7.4). The table is written apart from that
 * of our client, so that a test finds a wrong number in either.
 *
 * @module
 */

import { Protobuf } from "../../../../../src/wire/mod.ts";

const FEATURES = "UNSPECIFIED WATCH_SERVERS EDGE_CERTIFICATE_MANAGEMENT " +
  "ENVOY_BOOTSTRAP_CONFIGURATION FIPS";

export const MESSAGES: Protobuf = new Protobuf({
  Empty: {},
  WatchRootsResponse: {
    active_root_id: "1 string",
    trust_domain: "2 string",
    roots: "3 repeated CaRoot",
  },
  CaRoot: {
    id: "1 string",
    name: "2 string",
    // Unsigned; the embedded CA counts from 7.
    serial_number: "3 int64",
    signing_key_id: "4 string",
    root_cert: "5 string",
    intermediate_certs: "6 repeated string",
    active: "7 bool",
    rotated_out_at: "8 Timestamp",
  },
  Timestamp: { seconds: "1 int64", nanos: "2 int32" },
  SignRequest: { csr: "1 string" },
  SignResponse: { cert_pem: "2 string" },
  WatchServersRequest: { wan: "1 bool" },
  WatchServersResponse: { servers: "1 repeated Server" },
  Server: { id: "1 string", address: "2 string", version: "3 string" },
  FeaturesResponse: { supported_dataplane_features: "1 repeated Feature" },
  Feature: { feature_name: `1 enum ${FEATURES}`, supported: "2 bool" },
  BootstrapRequest: {
    node_id: "1 oneof string",
    node_name: "2 oneof string",
    // The name that `proxy_id` had before.
    service_id: "3 string",
    partition: "4 string",
    namespace: "5 string",
    proxy_id: "6 string",
  },
  BootstrapResponse: {
    service: "2 string",
    namespace: "3 string",
    partition: "4 string",
    datacenter: "5 string",
    config: "6 Struct",
    node_name: "8 string",
    access_logs: "9 repeated string",
    identity: "10 string",
  },
  Struct: { fields: "1 map Value" },
  Value: {
    null_value: "1 oneof enum NULL_VALUE",
    number_value: "2 oneof double",
    string_value: "3 oneof string",
    bool_value: "4 oneof bool",
    struct_value: "5 oneof Struct",
    list_value: "6 oneof ListValue",
  },
  ListValue: { values: "1 repeated Value" },
  LoginRequest: { auth_method: "1 string", bearer_token: "2 string", meta: "3 map string" },
  LoginResponse: { token: "1 LoginToken" },
  LoginToken: { accessor_id: "1 string", secret_id: "2 string" },
  LogoutRequest: { token: "1 string" },
});
