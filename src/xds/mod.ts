/** A client of Envoy's discovery protocol (xDS, v3), for any type of resource. @module */
export { DeltaProtocol } from "./delta.ts";
export type { OfferedResource, ProtocolOptions, ResourceHost } from "./held_resources.ts";
export * from "./messages.ts";
export { SotwProtocol } from "./sotw.ts";
export { SharedRetry, XdsStream, type XdsVariant } from "./xds_stream.ts";
