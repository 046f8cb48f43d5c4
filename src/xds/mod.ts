/** A client of Envoy's discovery protocol (xDS, v3), for any type of resource. @module */
export { DeltaProtocol } from "./delta.ts";
export * from "./messages.ts";
export type { OfferedResource, ProtocolOptions, ResourceHost, XdsProtocol } from "./protocol.ts";
export { SotwProtocol } from "./sotw.ts";
export { XDS_PROTOBUF, XDS_TYPES } from "./xds_types.ts";
export { SharedRetry, XdsStream, type XdsVariant } from "./xds_stream.ts";
