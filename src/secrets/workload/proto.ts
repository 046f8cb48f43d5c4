/**
 * The messages of the SPIFFE Workload API that a proxy needs. Field numbers are those of the standard
 * (SPIFFE Workload API 5.1); the library that reads them is loaded when the first stream opens.
 *
 * @module
 */

import type { Type } from "protobufjs";

/** The service has no package. */
export const WORKLOAD_METHODS = {
  svids: "/SpiffeWorkloadAPI/FetchX509SVID",
  bundles: "/SpiffeWorkloadAPI/FetchX509Bundles",
} as const;

export type WorkloadMethod = keyof typeof WORKLOAD_METHODS;

const PROTO = `
syntax = "proto3";
message X509SVIDRequest {}
message X509SVIDResponse {
  repeated X509SVID svids = 1;
  repeated bytes crl = 2;
  map<string, bytes> federated_bundles = 3;
}
message X509SVID {
  string spiffe_id = 1;
  bytes x509_svid = 2;
  bytes x509_svid_key = 3;
  bytes bundle = 4;
  string hint = 5;
}
message X509BundlesRequest {}
message X509BundlesResponse {
  repeated bytes crl = 1;
  map<string, bytes> bundles = 2;
}
`;

export interface WorkloadTypes {
  readonly svids: Type;
  readonly bundles: Type;
}

let loaded: Promise<WorkloadTypes> | undefined;

/** The types of both answers. */
export function loadWorkloadTypes(): Promise<WorkloadTypes> {
  loaded ??= load();
  return loaded;
}

async function load(): Promise<WorkloadTypes> {
  const { default: protobuf } = await import("protobufjs");
  const { root } = protobuf.parse(PROTO, { keepCase: true });
  return {
    svids: root.lookupType("X509SVIDResponse"),
    bundles: root.lookupType("X509BundlesResponse"),
  };
}
