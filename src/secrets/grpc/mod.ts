/** Streaming gRPC calls for SDS and the Workload API. @module */
export { createGrpcChannel } from "./channel.ts";
export * from "./status.ts";
export * from "./types.ts";
