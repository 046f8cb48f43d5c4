/**
 * The gRPC library, loaded when the first channel dials: a proxy without such a source neither reads
 * nor runs it.
 *
 * @module
 */

import type * as Grpc from "@grpc/grpc-js";

export type GrpcLibrary = Pick<
  typeof Grpc,
  | "Channel"
  | "ChannelCredentials"
  | "connectivityState"
  | "credentials"
  | "logVerbosity"
  | "Metadata"
  | "setLogVerbosity"
>;

let loading: Promise<GrpcLibrary> | undefined;

export function loadGrpcLibrary(): Promise<GrpcLibrary> {
  return loading ??= import("@grpc/grpc-js").then(({ default: library }) => {
    // Its own lines would go to stderr as they are; what matters reaches us as the status of a call.
    library.setLogVerbosity(library.logVerbosity.NONE);
    return library;
  });
}
