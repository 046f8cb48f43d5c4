/**
 * The part of Envoy's discovery API (v3) that a client needs: messages and fields by their numbers, as in
 * the `.proto` files. Other fields are skipped when they arrive.
 *
 * @module
 */

import { Protobuf } from "../wire/mod.ts";

/** For tables of resource types, whose messages may contain these. */
export const XDS_TYPES = {
  // google.protobuf and google.rpc
  Any: { type_url: "1 string", value: "2 bytes" },
  Duration: { seconds: "1 int64", nanos: "2 int32" },
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
  // envoy.config.core.v3
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
  // envoy.service.discovery.v3
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

export const XDS_PROTOBUF: Protobuf = new Protobuf(XDS_TYPES);
