/**
 * `DataplaneService/GetEnvoyBootstrapParams`: the one question about a proxy that takes no right on its
 * node, and hence tells a proxy that is not there from one that we may not see. Fields as in
 * `proto-public/pbdataplane/dataplane.proto`.
 *
 * @module
 */

import { Protobuf } from "../../../wire/mod.ts";
import type { Method } from "../types.ts";

const PROTOBUF = new Protobuf({
  GetEnvoyBootstrapParamsRequest: {
    node_name: "2 string",
    namespace: "5 string",
    partition: "4 string",
    proxy_id: "6 string",
  },
});

export interface BootstrapParamsRequest {
  readonly node: string;
  readonly proxyId: string;
  readonly namespace: string;
  readonly partition: string;
}

/** That there is an answer is the answer: what is in it is read elsewhere. */
export function bootstrapParams(what: string): Method<BootstrapParamsRequest, true> {
  return {
    path: "/hashicorp.consul.dataplane.DataplaneService/GetEnvoyBootstrapParams",
    what,
    resource: "bootstrap_params",
    encode: ({ node, proxyId, namespace, partition }) =>
      PROTOBUF.encode("GetEnvoyBootstrapParamsRequest", {
        node_name: node,
        proxy_id: proxyId,
        namespace,
        partition,
      }),
    decode: () => true,
  };
}
