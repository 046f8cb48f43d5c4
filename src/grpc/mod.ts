/**
 * A gRPC client on our own HTTP/2: calls that stream messages. The content of messages, and when a call is
 * made again, is left to the callers.
 *
 * @module
 */
export { createGrpcChannel } from "./channel.ts";
export { KeptStream, type OpenStream, type Reopening, type StreamEnd } from "./kept_stream.ts";
export { dialGrpcLink } from "./link.ts";
export { framed } from "./message_reader.ts";
export { formatStatus, type GrpcStatus, grpcStatus } from "./types.ts";
export type {
  GrpcCall,
  GrpcChannel,
  GrpcChannelOptions,
  GrpcLimits,
  GrpcLink,
  GrpcLinkOptions,
  MessageTypes,
  Metadata,
  StreamHandler,
} from "./types.ts";
