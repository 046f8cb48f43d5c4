/**
 * What the agent knows about nodes, services and checks, and the two ways Consul writes a service as
 * JSON: as the agent holds it, and as the catalog holds it.
 *
 * @module
 */

import { isObject, type Json, type JsonObject } from "../http/decode.ts";

export interface NodeRecord {
  /** `""`: none was given. */
  readonly id: string;
  readonly name: string;
  readonly address: string;
  readonly datacenter: string;
  readonly taggedAddresses: JsonObject | null;
  readonly meta: JsonObject | null;
  /** An agent runs there, whose life the cluster watches; elsewhere nobody but who registered it does. */
  readonly hasAgent: boolean;
  readonly createIndex: number;
  readonly modifyIndex: number;
}

export interface ServiceRecord {
  readonly node: NodeRecord;
  readonly kind: string;
  readonly id: string;
  readonly name: string;
  readonly tags: readonly string[];
  readonly meta: JsonObject;
  readonly port: number;
  readonly address: string;
  readonly socketPath: string;
  readonly taggedAddresses: JsonObject;
  readonly weights: { readonly Passing: number; readonly Warning: number };
  readonly enableTagOverride: boolean;
  readonly native: boolean;
  readonly locality: JsonObject | undefined;
  /** As registered. Absent for services that are no proxies. */
  readonly proxy: JsonObject | undefined;
  /** `proxy` with the central configuration merged in. */
  readonly merged: JsonObject | undefined;
  readonly createIndex: number;
  readonly modifyIndex: number;
}

export type Status = "passing" | "warning" | "critical";

export interface CheckRecord {
  readonly id: string;
  readonly name: string;
  readonly status: Status;
  readonly notes: string;
  readonly output: string;
  /** `""`: a check of the node. */
  readonly serviceId: string;
  readonly serviceName: string;
  readonly serviceTags: readonly string[];
  readonly type: string;
  readonly interval: string;
  readonly timeout: string;
  readonly definition: JsonObject;
  readonly createIndex: number;
  readonly modifyIndex: number;
}

/** The service whose mesh traffic an instance takes: a proxy's destination, or a native one itself. */
export function meshServiceOf(service: ServiceRecord): string | undefined {
  if (service.native) return service.name;
  const destination = service.proxy?.["DestinationServiceName"];
  return service.kind === "connect-proxy" && typeof destination === "string"
    ? destination
    : undefined;
}

/** The worst of several, as Consul aggregates. */
export function worst(statuses: Iterable<Status>): Status {
  let result: Status = "passing";
  for (const status of statuses) {
    if (status === "critical") return "critical";
    if (status === "warning") result = "warning";
  }
  return result;
}

/** As `/v1/agent/service/:id` writes it, without the hash. */
export function agentService(service: ServiceRecord): JsonObject {
  return dropEmpty({
    Kind: service.kind,
    ID: service.id,
    Service: service.name,
    Tags: service.tags,
    Meta: service.meta,
    Port: service.port,
    Address: service.address,
    SocketPath: service.socketPath,
    TaggedAddresses: service.taggedAddresses,
    Weights: service.weights,
    EnableTagOverride: service.enableTagOverride,
    Proxy: service.merged === undefined ? null : proxyJson(service.merged, false),
    Connect: service.native ? { Native: true } : null,
    Datacenter: service.node.datacenter,
    Locality: service.locality ?? null,
  }, ["Kind", "SocketPath", "TaggedAddresses", "Proxy", "Connect", "Locality"]);
}

/** As `/v1/health` writes it; `proxy` is the block to show, merged or not. */
export function catalogService(
  service: ServiceRecord,
  tagged: JsonObject,
  proxy: JsonObject | undefined = service.merged ?? service.proxy,
): JsonObject {
  return dropEmpty({
    Kind: service.kind,
    ID: service.id,
    Service: service.name,
    Tags: service.tags,
    Address: service.address,
    TaggedAddresses: tagged,
    Meta: Object.keys(service.meta).length === 0 ? null : service.meta,
    Port: service.port,
    SocketPath: service.socketPath,
    Weights: service.weights,
    EnableTagOverride: service.enableTagOverride,
    Proxy: proxyJson(proxy ?? {}, true),
    Connect: service.native ? { Native: true } : {},
    Locality: service.locality ?? null,
    PeerName: "",
    CreateIndex: service.createIndex,
    ModifyIndex: service.modifyIndex,
  }, ["Kind", "SocketPath", "TaggedAddresses", "Locality"]);
}

export function nodeJson(node: NodeRecord): JsonObject {
  return {
    ID: node.id,
    Node: node.name,
    Address: node.address,
    Datacenter: node.datacenter,
    TaggedAddresses: node.taggedAddresses,
    Meta: node.meta,
    CreateIndex: node.createIndex,
    ModifyIndex: node.modifyIndex,
  };
}

export function checkJson(node: NodeRecord, check: CheckRecord, local = false): JsonObject {
  return {
    Node: node.name,
    CheckID: check.id,
    Name: check.name,
    Status: check.status,
    Notes: check.notes,
    Output: check.output,
    ServiceID: check.serviceId,
    ServiceName: check.serviceName,
    ServiceTags: check.serviceTags,
    Type: check.type,
    Interval: check.interval,
    Timeout: check.timeout,
    ExposedPort: 0,
    Definition: check.definition,
    CreateIndex: local ? 0 : check.createIndex,
    ModifyIndex: local ? 0 : check.modifyIndex,
  };
}

const PROXY_ORDER = [
  "DestinationServiceName",
  "DestinationServiceID",
  "LocalServiceAddress",
  "LocalServicePort",
  "LocalServiceSocketPath",
  "Mode",
  "TransparentProxy",
  "Config",
  "Upstreams",
  "MeshGateway",
  "Expose",
  "AccessLogs",
  "EnvoyExtensions",
];

/** A proxy block without its empty fields; the catalog always writes `Mode` and upstream datacenters. */
function proxyJson(proxy: JsonObject, catalog: boolean): JsonObject {
  const result: Record<string, Json> = {};
  for (const key of PROXY_ORDER) {
    if (key === "EnvoyExtensions" && !catalog) continue;
    const value = proxy[key] ?? null;
    if (key === "MeshGateway" || key === "Expose") {
      result[key] = isObject(value) ? dropEmpty(value, Object.keys(value)) : {};
    } else if (key === "Mode" && catalog) result[key] = value ?? "";
    else if (key === "Upstreams" && Array.isArray(value) && value.length > 0) {
      result[key] = (value as readonly Json[]).map((item) =>
        isObject(item) ? upstreamJson(item, catalog) : item
      );
    } else if (!isEmpty(value)) {
      result[key] = isObject(value) && key !== "Config"
        ? dropEmpty(value, Object.keys(value))
        : value;
    }
  }
  return result;
}

const UPSTREAM_ORDER = [
  "DestinationType",
  "DestinationPartition",
  "DestinationNamespace",
  "DestinationPeer",
  "DestinationName",
  "Datacenter",
  "LocalBindAddress",
  "LocalBindPort",
  "LocalBindSocketPath",
  "LocalBindSocketMode",
  "Config",
  "MeshGateway",
];

function upstreamJson(upstream: JsonObject, catalog: boolean): JsonObject {
  const result: Record<string, Json> = {};
  for (const key of UPSTREAM_ORDER) {
    const value = upstream[key] ?? null;
    if (key === "DestinationType") result[key] = value ?? "";
    else if (key === "Datacenter" && catalog) result[key] = value ?? "";
    else if (key === "MeshGateway") {
      result[key] = isObject(value) ? dropEmpty(value, Object.keys(value)) : {};
    } else if (!isEmpty(value)) result[key] = value;
  }
  return result;
}

export function isEmpty(value: Json): boolean {
  if (value === null || value === "" || value === 0 || value === false) return true;
  if (Array.isArray(value)) return value.length === 0;
  return isObject(value) && Object.keys(value).length === 0;
}

/** The object without those of `keys` that are empty. */
export function dropEmpty(object: JsonObject, keys: readonly string[]): JsonObject {
  return Object.fromEntries(
    Object.entries(object).filter(([key, value]) => !(keys.includes(key) && isEmpty(value))),
  );
}
