/** Records of nodes, services and checks in the catalog, and their form in the API. @module */

import {
  isObject,
  type JsonObject,
  type JsonValue,
  objectAt,
  textAt,
  withoutEmpty,
} from "../json.ts";

export interface NodeFacts {
  /** `""`: none was given. */
  readonly id: string;
  readonly name: string;
  readonly address: string;
  readonly datacenter: string;
  readonly taggedAddresses: JsonObject | null;
  readonly meta: JsonObject | null;
  /** An agent runs there, which the cluster watches by the check `serfHealth`. */
  readonly hasAgent: boolean;
}

/** Indexes of the write that made something, and of the last one that changed it. */
interface Indexes {
  readonly createIndex: number;
  readonly modifyIndex: number;
}

export interface NodeRecord extends NodeFacts, Indexes {}

export interface ServiceContent {
  readonly id: string;
  readonly name: string;
  readonly kind: string;
  /** Its fields in Consul's spelling, without `Proxy`. */
  readonly definition: JsonObject;
  /** The proxy block as registered; undefined: the service is no proxy. */
  readonly proxy: JsonObject | undefined;
  /** `proxy` with the central configuration merged in; undefined: nothing merges for this node. */
  readonly merged: JsonObject | undefined;
}

export interface ServiceRecord extends ServiceContent, Indexes {}

export type Status = "passing" | "warning" | "critical";

export interface CheckContent {
  readonly id: string;
  readonly status: Status;
  readonly output: string;
  /** `""`: a check of the node. */
  readonly serviceId: string;
  /** The other fields that the API shows, in Consul's spelling. */
  readonly facts: JsonObject;
}

export interface CheckRecord extends CheckContent, Indexes {}

/** The service whose mesh traffic an instance takes: a proxy's destination, or a native service itself. */
export function meshServiceOf(
  { name, kind, definition, proxy }: ServiceContent,
): string | undefined {
  if (objectAt(definition, "Connect")["Native"] === true) return name;
  return kind === "connect-proxy" ? textAt(proxy ?? {}, "DestinationServiceName") : undefined;
}

/** The worst status of several, as Consul sums them up. */
export function worstOf(checks: Iterable<Pick<CheckContent, "status">>): Status {
  const statuses = new Set([...checks].map(({ status }) => status));
  return statuses.has("critical") ? "critical" : statuses.has("warning") ? "warning" : "passing";
}

const OPTIONAL = ["Kind", "SocketPath", "TaggedAddresses", "Connect", "Locality"];

/** A service as `/v1/agent/service/:id` shows it, without the content hash. */
export function agentServiceJson(service: ServiceRecord, datacenter: string): JsonObject {
  return {
    ...withoutEmpty(service.definition, OPTIONAL),
    ...service.merged ? { Proxy: proxyJson(service.merged) } : {},
    Datacenter: datacenter,
  };
}

/** A service as `/v1/health` shows it; `proxy`: the block to show. */
export function catalogServiceJson(
  service: ServiceRecord,
  proxy: JsonObject | undefined = service.merged ?? service.proxy,
): JsonObject {
  const { Meta: meta = null, ...definition } = service.definition;
  return {
    ...withoutEmpty(definition, OPTIONAL),
    Meta: isObject(meta) && Object.keys(meta).length > 0 ? meta : null,
    Proxy: proxyJson(proxy ?? {}),
    Connect: objectAt(definition, "Connect"),
    PeerName: "",
    CreateIndex: service.createIndex,
    ModifyIndex: service.modifyIndex,
  };
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

/** `local`: as an agent shows its own, without indexes. */
export function checkJson(node: NodeFacts, check: CheckRecord, local = false): JsonObject {
  return {
    Node: node.name,
    CheckID: check.id,
    Name: "",
    Status: check.status,
    Notes: "",
    Output: check.output,
    ServiceID: check.serviceId,
    ServiceName: "",
    ServiceTags: [],
    Type: "",
    Interval: "",
    Timeout: "",
    ExposedPort: 0,
    Definition: {},
    ...check.facts,
    CreateIndex: local ? 0 : check.createIndex,
    ModifyIndex: local ? 0 : check.modifyIndex,
  };
}

/** A proxy block without its empty fields; these two are always shown. */
function proxyJson(proxy: JsonObject): JsonObject {
  const shown = Object.entries(proxy).map(([key, value]): [string, JsonValue] => [
    key,
    isObject(value) && key !== "Config" ? withoutEmpty(value) : value,
  ]);
  const upstreams = proxy["Upstreams"];
  return {
    ...withoutEmpty(Object.fromEntries(shown)),
    MeshGateway: withoutEmpty(objectAt(proxy, "MeshGateway")),
    Expose: withoutEmpty(objectAt(proxy, "Expose")),
    ...Array.isArray(upstreams) && upstreams.length > 0
      ? { Upstreams: upstreams.map((upstream) => isObject(upstream) ? upstreamJson(upstream) : {}) }
      : {},
  };
}

function upstreamJson(upstream: JsonObject): JsonObject {
  return {
    ...withoutEmpty(upstream),
    DestinationType: textAt(upstream, "DestinationType"),
    MeshGateway: withoutEmpty(objectAt(upstream, "MeshGateway")),
  };
}
