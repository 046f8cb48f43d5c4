/**
 * The fields that `filter=` may name on each endpoint, and the reading of that parameter.
 *
 * @module
 */

import { type Bexpr, checkSelectors, type Known, parseBexpr } from "./bexpr.ts";
import { Refusal } from "./refusal.ts";

const PROXY: Known = {
  DestinationServiceName: true,
  DestinationServiceID: true,
  LocalServiceAddress: true,
  LocalServicePort: true,
  LocalServiceSocketPath: true,
  Mode: true,
  TransparentProxy: true,
  MeshGateway: true,
  Expose: true,
  Upstreams: true,
};

/** Fields of a service on the agent. */
export const SERVICE_FIELDS: Known = {
  Kind: true,
  ID: true,
  Service: true,
  Tags: true,
  Meta: true,
  Port: true,
  Address: true,
  SocketPath: true,
  TaggedAddresses: true,
  Weights: { Passing: true, Warning: true },
  EnableTagOverride: true,
  ContentHash: true,
  Datacenter: true,
  Namespace: true,
  Partition: true,
  PeerName: true,
  CreateIndex: true,
  ModifyIndex: true,
  Connect: { Native: true },
  Proxy: PROXY,
  Locality: true,
};

/** Fields of a health entry. */
export const ENTRY_FIELDS: Known = {
  Node: {
    ID: true,
    Node: true,
    Address: true,
    Datacenter: true,
    TaggedAddresses: true,
    Meta: true,
    Partition: true,
    PeerName: true,
    Locality: true,
  },
  Service: SERVICE_FIELDS,
  Checks: true,
};

/** Fields of a row of the catalog. */
export const ROW_FIELDS: Known = {
  ID: true,
  Node: true,
  Address: true,
  Datacenter: true,
  TaggedAddresses: true,
  NodeMeta: true,
  ServiceKind: true,
  ServiceID: true,
  ServiceName: true,
  ServiceTags: true,
  ServiceAddress: true,
  ServiceTaggedAddresses: true,
  ServiceWeights: true,
  ServiceMeta: true,
  ServicePort: true,
  ServiceProxy: PROXY,
  ServiceConnect: { Native: true },
};

/** The parsed `filter=`, or `undefined` without one; 500 for one that cannot be used, as in Consul. */
export function readFilter(query: URLSearchParams, known: Known): Bexpr | undefined {
  const text = query.get("filter") ?? "";
  if (text === "") return undefined;
  try {
    const expression = parseBexpr(text);
    checkSelectors(expression, known);
    return expression;
  } catch (error) {
    const fact = error instanceof Error ? error.message : "";
    throw new Refusal(500, `Failed to create boolean expression evaluator: ${fact}`);
  }
}
