/**
 * Messages of the secret discovery service as plain values.
 *
 * @module
 */

import { createHash } from "node:crypto";
import { messageOf } from "../../base/mod.ts";
import type { MessageTypes } from "../../grpc/mod.ts";
import type { PlainMessage } from "../../wire/mod.ts";
import type { SdsNode } from "../plan.ts";
import { plainSecret } from "./plain_secret.ts";
import { SDS_PROTOBUF } from "./sds_types.ts";

export const SDS_METHODS = {
  sotw: "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets",
  delta: "/envoy.service.secret.v3.SecretDiscoveryService/DeltaSecrets",
} as const;

export const SECRET_TYPE_URL =
  "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
/** Gives a resource of the state of the world a time to live. */
const WRAPPER_TYPE_URL = "type.googleapis.com/envoy.service.discovery.v3.Resource";

/** Who asks: `user_agent_version` is a text, see the `.proto` file. */
export interface SdsClient {
  readonly node: SdsNode;
  readonly version: string;
}

/** Why a response is not taken. */
export interface ErrorDetail {
  readonly code: number;
  readonly message: string;
}

export interface SotwRequest {
  readonly version: string;
  readonly client?: SdsClient;
  readonly names: readonly string[];
  readonly nonce: string;
  readonly error?: ErrorDetail;
}

export interface SotwResponse {
  readonly version: string;
  readonly typeUrl: string;
  readonly nonce: string;
  readonly resources: readonly SdsResource[];
}

export interface DeltaRequest {
  readonly client?: SdsClient;
  readonly subscribe: readonly string[];
  readonly unsubscribe: readonly string[];
  readonly initialVersions: ReadonlyMap<string, string>;
  readonly nonce: string;
  readonly error?: ErrorDetail;
}

export interface DeltaResponse {
  readonly typeUrl: string;
  readonly nonce: string;
  readonly resources: readonly SdsResource[];
  readonly removed: readonly string[];
}

export interface SdsResource {
  /** "" where it could not be read. */
  readonly name: string;
  readonly version: string;
  /** From now on; absent: for ever. */
  readonly ttlMs?: number;
  readonly content: SdsContent;
}

export type SdsContent =
  /** `digest`: of its bytes. */
  | { readonly kind: "secret"; readonly digest: string; readonly read: ReadSecret }
  /** Unchanged; only its time to live starts anew. */
  | { readonly kind: "heartbeat" }
  | { readonly kind: "unreadable"; readonly reason: string };

/**
 * Gives it in the shape that the readers of Envoy's JSON take; throws where it cannot be read. Most of a
 * state of the world is what it was: that is never read again.
 */
export type ReadSecret = () => PlainMessage;

/** The state of the world, as messages. */
export const SOTW_TYPES: MessageTypes<SotwRequest, SotwResponse> = {
  encode: ({ version, client, names, nonce, error }) =>
    SDS_PROTOBUF.encode("DiscoveryRequest", {
      version_info: version,
      ...(client && { node: nodeOf(client) }),
      resource_names: names,
      type_url: SECRET_TYPE_URL,
      response_nonce: nonce,
      ...(error && { error_detail: error }),
    }),
  decode: sotwResponse,
};

export const DELTA_TYPES: MessageTypes<DeltaRequest, DeltaResponse> = {
  encode: ({ client, subscribe, unsubscribe, initialVersions, nonce, error }) =>
    SDS_PROTOBUF.encode("DeltaDiscoveryRequest", {
      ...(client && { node: nodeOf(client) }),
      type_url: SECRET_TYPE_URL,
      resource_names_subscribe: subscribe,
      resource_names_unsubscribe: unsubscribe,
      initial_resource_versions: Object.fromEntries(initialVersions),
      response_nonce: nonce,
      ...(error && { error_detail: error }),
    }),
  decode: deltaResponse,
};

function sotwResponse(bytes: Uint8Array): SotwResponse {
  const plain = SDS_PROTOBUF.decode("DiscoveryResponse", bytes);
  const version = textOf(plain.version_info);
  return {
    version,
    typeUrl: textOf(plain.type_url),
    nonce: textOf(plain.nonce),
    resources: listOf(plain.resources).map((any) => {
      if (textOf(any.type_url) !== WRAPPER_TYPE_URL) {
        return { ...readContent(any), version };
      }
      try {
        const wrapper = SDS_PROTOBUF.decode("Resource", bytesOf(any.value));
        return { ...wrapped(wrapper), version };
      } catch (error) {
        return { name: "", version, content: unreadable(messageOf(error)) };
      }
    }),
  };
}

function deltaResponse(bytes: Uint8Array): DeltaResponse {
  const plain = SDS_PROTOBUF.decode("DeltaDiscoveryResponse", bytes);
  const { removed_resources: removed } = plain;
  return {
    typeUrl: textOf(plain.type_url),
    nonce: textOf(plain.nonce),
    resources: listOf(plain.resources).map((resource) => wrapped(resource)),
    removed: Array.isArray(removed) ? removed.map(textOf) : [],
  };
}

/** envoy.service.discovery.v3.Resource. */
function wrapped(wrapper: PlainMessage): SdsResource {
  const version = textOf(wrapper.version);
  const { ttl } = wrapper;
  const ttlMs = ttl ? durationMs(ttl as PlainMessage) : undefined;
  const timed = ttlMs === undefined ? {} : { ttlMs };
  const name = textOf(wrapper.name);
  if (!wrapper.resource) return { name, version, ...timed, content: { kind: "heartbeat" } };
  const inner = readContent(wrapper.resource as PlainMessage);
  if (inner.content.kind !== "secret" || name === "" || inner.name === name) {
    return { name: name || inner.name, version, ...timed, content: inner.content };
  }
  const content = unreadable(`the secret in it is called "${inner.name}"`);
  return { name, version, ...timed, content };
}

function readContent(
  any: PlainMessage,
): { readonly name: string; readonly content: SdsContent } {
  const typeUrl = textOf(any.type_url);
  if (typeUrl !== SECRET_TYPE_URL) {
    return { name: "", content: unreadable(`it is of type "${typeUrl.slice(0, 200)}"`) };
  }
  try {
    const bytes = bytesOf(any.value);
    const { name } = SDS_PROTOBUF.decode("SecretName", bytes);
    const digest = createHash("sha256").update(bytes).digest("base64");
    const read = () => plainSecret(bytes);
    return { name: textOf(name), content: { kind: "secret", digest, read } };
  } catch (error) {
    return { name: "", content: unreadable(messageOf(error)) };
  }
}

function unreadable(reason: string): SdsContent {
  return { kind: "unreadable", reason: `it cannot be read: ${reason}` };
}

/** Envoy takes a time to live in the past for one that has run out. */
function durationMs(duration: PlainMessage): number {
  const { seconds, nanos } = duration;
  const ms = (typeof seconds === "number" ? seconds : 0) * 1000 +
    (typeof nanos === "number" ? nanos : 0) / 1e6;
  return Math.max(0, ms);
}

function nodeOf({ node, version }: SdsClient): PlainMessage {
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

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function bytesOf(value: unknown): Uint8Array {
  return value instanceof Uint8Array ? value : new Uint8Array();
}

function listOf(value: unknown): readonly PlainMessage[] {
  return Array.isArray(value) ? value : [];
}
