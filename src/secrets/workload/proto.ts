/**
 * Methods and messages of the SPIFFE Workload API. The library that reads them is loaded when the first
 * answer comes.
 *
 * @module
 */

import { loadProtobuf, type Protobuf } from "../grpc/protobuf.ts";
import { DESCRIPTOR } from "./workload_messages.ts";

/** The service has no package. */
export const WORKLOAD_METHODS = {
  svids: "/SpiffeWorkloadAPI/FetchX509SVID",
  bundles: "/SpiffeWorkloadAPI/FetchX509Bundles",
} as const;

export type WorkloadMethod = keyof typeof WORKLOAD_METHODS;

let loading: Promise<Protobuf> | undefined;

export function loadWorkloadProtobuf(): Promise<Protobuf> {
  return loading ??= loadProtobuf("workload", DESCRIPTOR);
}
