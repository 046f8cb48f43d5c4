/**
 * A gRPC client on our own HTTP/2: calls that stream messages. The content of messages, and when a call is
 * made again, is left to the callers.
 * @module
 */
export { GrpcChannel, GrpcLink } from "./channel.ts";
export { KeptStream, type OpenStream, type Reopening, type StreamEnd } from "./kept_stream.ts";
export { framed } from "./message_reader.ts";
export {
  formatStatus,
  type GrpcCall,
  type GrpcLimits,
  type GrpcStatus,
  grpcStatus,
  type MessageTypes,
  type Metadata,
  type StreamHandler,
} from "./types.ts";
