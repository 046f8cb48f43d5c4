/** Discovery requests and responses as plain values, for one type of resource. @module */

import { createHash } from "node:crypto";
import { messageOf } from "../base/mod.ts";
import type { MessageTypes } from "../grpc/mod.ts";
import { plainBytes, plainList, type PlainMessage, plainText, Protobuf } from "../wire/mod.ts";

/** Gives a resource of the state of the world a time to live. */
const WRAPPER_TYPE_URL = "type.googleapis.com/envoy.service.discovery.v3.Resource";

export interface ResourceType<T> {
  readonly typeUrl: string;
  /** In error details, as Envoy has them: `SDS`, `secret`. */
  readonly service: string;
  readonly noun: string;
  /** The name inside a resource; throws for bytes that are no such resource. */
  nameOf(bytes: Uint8Array): string;
  /** Throws for bytes that cannot be read. */
  read(bytes: Uint8Array): T;
}

/** Our own name at the server; `id` and `cluster` are not empty. */
export interface XdsNode {
  readonly id: string;
  readonly cluster: string;
  /** JSON values. */
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly locality?: { readonly region: string; readonly zone: string; readonly subZone: string };
}

/** The sender of requests: its node, and the version of this program for the user agent. */
export interface XdsClient {
  readonly node: XdsNode;
  readonly version: string;
}

export interface ErrorDetail {
  readonly code: number;
  readonly message: string;
}

export interface SotwRequest {
  readonly version: string;
  readonly client?: XdsClient;
  readonly names: readonly string[];
  readonly nonce: string;
  readonly error?: ErrorDetail;
}

export interface SotwResponse<T> {
  readonly version: string;
  readonly typeUrl: string;
  readonly nonce: string;
  readonly resources: readonly XdsResource<T>[];
}

export interface DeltaRequest {
  readonly client?: XdsClient;
  readonly subscribe: readonly string[];
  readonly unsubscribe: readonly string[];
  readonly initialVersions: ReadonlyMap<string, string>;
  readonly nonce: string;
  readonly error?: ErrorDetail;
}

export interface DeltaResponse<T> {
  readonly typeUrl: string;
  readonly nonce: string;
  readonly resources: readonly XdsResource<T>[];
  readonly removed: readonly string[];
}

export interface XdsResource<T> {
  /** "": it could not be read. */
  readonly name: string;
  readonly version: string;
  /** Time to live, starting now; absent: no limit. */
  readonly ttlMs?: number;
  readonly content: XdsContent<T>;
}

type XdsContent<T> =
  /**
   * `digest`: of its bytes. `read` decodes them and may throw. It is called late, because most of a state
   * of the world has not changed and is never read again.
   */
  | { readonly kind: "resource"; readonly digest: string; readonly read: () => T }
  /** Unchanged; the time to live starts again. */
  | { readonly kind: "heartbeat" }
  | { readonly kind: "unreadable"; readonly reason: string };

export function sotwMessages<T>(type: ResourceType<T>): MessageTypes<SotwRequest, SotwResponse<T>> {
  return {
    encode: ({ version, client, names, nonce, error }) =>
      XDS_PROTOBUF.encode("DiscoveryRequest", {
        version_info: version,
        ...(client && { node: nodeOf(client) }),
        resource_names: names,
        type_url: type.typeUrl,
        response_nonce: nonce,
        ...(error && { error_detail: error }),
      }),
    decode(bytes) {
      const plain = XDS_PROTOBUF.decode("DiscoveryResponse", bytes);
      const version = plainText(plain.version_info);
      return {
        version,
        typeUrl: plainText(plain.type_url),
        nonce: plainText(plain.nonce),
        resources: plainList(plain.resources).map((any) => ({ ...unwrapped(type, any), version })),
      };
    },
  };
}

export function deltaMessages<T>(
  type: ResourceType<T>,
): MessageTypes<DeltaRequest, DeltaResponse<T>> {
  return {
    encode: ({ client, subscribe, unsubscribe, initialVersions, nonce, error }) =>
      XDS_PROTOBUF.encode("DeltaDiscoveryRequest", {
        ...(client && { node: nodeOf(client) }),
        type_url: type.typeUrl,
        resource_names_subscribe: subscribe,
        resource_names_unsubscribe: unsubscribe,
        initial_resource_versions: Object.fromEntries(initialVersions),
        response_nonce: nonce,
        ...(error && { error_detail: error }),
      }),
    decode(bytes) {
      const plain = XDS_PROTOBUF.decode("DeltaDiscoveryResponse", bytes);
      const { removed_resources: removed } = plain;
      return {
        typeUrl: plainText(plain.type_url),
        nonce: plainText(plain.nonce),
        resources: plainList(plain.resources).map((wrapper) => resourceOf(type, wrapper)),
        removed: Array.isArray(removed) ? removed.map(plainText) : [],
      };
    },
  };
}

/** A resource of the state of the world, bare or wrapped. */
function unwrapped<T>(type: ResourceType<T>, any: PlainMessage): XdsResource<T> {
  if (plainText(any.type_url) !== WRAPPER_TYPE_URL) return { version: "", ...contentOf(type, any) };
  try {
    return resourceOf(type, XDS_PROTOBUF.decode("Resource", plainBytes(any.value)));
  } catch (error) {
    return { name: "", version: "", content: unreadable(messageOf(error)) };
  }
}

/** envoy.service.discovery.v3.Resource. */
function resourceOf<T>(type: ResourceType<T>, wrapper: PlainMessage): XdsResource<T> {
  const name = plainText(wrapper.name);
  const { ttl, resource } = wrapper;
  const common = {
    version: plainText(wrapper.version),
    ...(ttl !== undefined && { ttlMs: durationMs(ttl as PlainMessage) }),
  };
  if (!resource) return { ...common, name, content: { kind: "heartbeat" } };
  const inner = contentOf(type, resource as PlainMessage);
  if (inner.content.kind !== "resource" || name === "" || inner.name === name) {
    return { ...common, name: name || inner.name, content: inner.content };
  }
  const content = unreadable(`the ${type.noun} in it is called "${inner.name}"`);
  return { ...common, name, content };
}

function contentOf<T>(
  type: ResourceType<T>,
  any: PlainMessage,
): Pick<XdsResource<T>, "name" | "content"> {
  const typeUrl = plainText(any.type_url);
  if (typeUrl !== type.typeUrl) {
    return { name: "", content: unreadable(`it is of type "${typeUrl.slice(0, 200)}"`) };
  }
  try {
    const bytes = plainBytes(any.value);
    const name = type.nameOf(bytes);
    const digest = createHash("sha256").update(bytes).digest("base64");
    return { name, content: { kind: "resource", digest, read: () => type.read(bytes) } };
  } catch (error) {
    return { name: "", content: unreadable(messageOf(error)) };
  }
}

function unreadable(reason: string): { readonly kind: "unreadable"; readonly reason: string } {
  return { kind: "unreadable", reason: `it cannot be read: ${reason}` };
}

/** A negative time to live has run out, as in Envoy. */
function durationMs({ seconds, nanos }: PlainMessage): number {
  const ms = (typeof seconds === "number" ? seconds : 0) * 1000 +
    (typeof nanos === "number" ? nanos : 0) / 1e6;
  return Math.max(0, ms);
}

function nodeOf({ node, version }: XdsClient): PlainMessage {
  const { locality } = node;
  return {
    id: node.id,
    cluster: node.cluster,
    ...(Object.keys(node.metadata).length > 0 && { metadata: structOf(node.metadata) }),
    ...(locality && {
      locality: { region: locality.region, zone: locality.zone, sub_zone: locality.subZone },
    }),
    user_agent_name: "postern",
    user_agent_version: version,
  };
}

/** google.protobuf.Struct. */
function structOf(fields: Readonly<Record<string, unknown>>): PlainMessage {
  const values = Object.entries(fields).map(([name, value]) => [name, valueOf(value)]);
  return { fields: Object.fromEntries(values) };
}

function valueOf(value: unknown): PlainMessage {
  if (typeof value === "string") return { string_value: value };
  if (typeof value === "number") return { number_value: value };
  if (typeof value === "boolean") return { bool_value: value };
  if (Array.isArray(value)) return { list_value: { values: value.map(valueOf) } };
  if (typeof value === "object" && value !== null) {
    return { struct_value: structOf(value as Readonly<Record<string, unknown>>) };
  }
  return { null_value: 0 };
}

/** For tables of resource types, whose messages may contain these. */
export const XDS_TYPES = {
  // google.protobuf and google.rpc
  Any: { type_url: "1 string", value: "2 bytes" },
  Duration: { seconds: "1 int64", nanos: "2 int32" },
  Status: { code: "1 int32", message: "2 string" },
  Struct: { fields: "1 map Value" },
  Value: {
    null_value: "1 oneof int32",
    number_value: "2 oneof double",
    string_value: "3 oneof string",
    bool_value: "4 oneof bool",
    struct_value: "5 oneof Struct",
    list_value: "6 oneof ListValue",
  },
  ListValue: { values: "1 repeated Value" },
  // envoy.config.core.v3
  Locality: { region: "1 string", zone: "2 string", sub_zone: "3 string" },
  Node: {
    id: "1 string",
    cluster: "2 string",
    metadata: "3 Struct",
    locality: "4 Locality",
    user_agent_name: "6 string",
    // Never user_agent_build_version (8): SPIRE takes one below 1.18 for an old Envoy.
    user_agent_version: "7 string",
  },
  // envoy.service.discovery.v3
  DiscoveryRequest: {
    version_info: "1 string",
    node: "2 Node",
    resource_names: "3 repeated string",
    type_url: "4 string",
    response_nonce: "5 string",
    error_detail: "6 Status",
  },
  DiscoveryResponse: {
    version_info: "1 string",
    resources: "2 repeated Any",
    type_url: "4 string",
    nonce: "5 string",
  },
  DeltaDiscoveryRequest: {
    node: "1 Node",
    type_url: "2 string",
    resource_names_subscribe: "3 repeated string",
    resource_names_unsubscribe: "4 repeated string",
    initial_resource_versions: "5 map string",
    response_nonce: "6 string",
    error_detail: "7 Status",
  },
  DeltaDiscoveryResponse: {
    system_version_info: "1 string",
    resources: "2 repeated Resource",
    type_url: "4 string",
    nonce: "5 string",
    removed_resources: "6 repeated string",
  },
  Resource: { version: "1 string", resource: "2 Any", name: "3 string", ttl: "6 Duration" },
} as const;

const XDS_PROTOBUF: Protobuf = new Protobuf(XDS_TYPES);
