/** Attributes of spans and of access records, by OpenTelemetry's conventions. @module */

import type { ErrorCode } from "../../base/mod.ts";
import {
  type ExchangeRecord,
  fieldOf,
  flagsText,
  isGrpc,
  readGrpcStatus,
  type SpanAttributes,
  type TracedListener,
} from "../../http/mod.ts";
import type { ConnectionRecord } from "./connection_record.ts";

const TEXT_LIMIT = 512;
const DEFAULT_PORTS: Readonly<Record<string, number>> = { http: 80, https: 443 };

class AttributeList {
  readonly values: (string | number)[] = [];

  /** `""` and `undefined`: the attribute is left out. */
  add(name: string, value: string | number | undefined): this {
    if (value === undefined || value === "") return this;
    this.values.push(name, typeof value === "string" ? value.slice(0, TEXT_LIMIT) : value);
    return this;
  }
}

export function attributesOf(
  record: ExchangeRecord,
  listener: TracedListener,
  grpc: number | undefined,
): SpanAttributes {
  const { request, downstream, status, code, flags } = record;
  const isInbound = listener.direction === "inbound";
  const server = addressOf(request?.authority ?? "");
  const peer = addressOf(isInbound ? downstream.remote : record.upstreamHost);
  const scheme = request?.scheme ?? "";
  const flagText = flagsText(flags);
  return new AttributeList()
    .add("http.request.method", request?.method)
    .add("url.scheme", scheme)
    .add("url.path", pathOf(request?.path ?? ""))
    .add("http.response.status_code", status > 0 ? status : undefined)
    .add("server.address", server.host)
    .add("server.port", server.port ?? DEFAULT_PORTS[scheme])
    .add("network.protocol.name", "http")
    .add("network.protocol.version", request?.version.slice("HTTP/".length))
    .add("network.peer.address", peer.host)
    .add("network.peer.port", peer.port)
    .add("http.request.body.size", record.receivedBytes)
    .add("http.response.body.size", record.sentBytes)
    .add("rpc.system", request && isGrpc(request.fields) ? "grpc" : undefined)
    .add("rpc.grpc.status_code", grpc)
    .add("error.type", code ?? (status >= 500 ? String(status) : undefined))
    .add("upstream_cluster", record.upstreamCluster)
    .add("response_flags", flagText === "" ? "-" : flagText)
    .add("guid:x-request-id", request && fieldOf(request.fields, "x-request-id"))
    .add("postern.listener", listener.name)
    .add("postern.peer", isInbound ? downstream.peer?.uri : record.upstream?.identity)
    .add("postern.intention", record.rule)
    .add("postern.route", record.route)
    .add("postern.chosen_by", record.chosenBy)
    .add("postern.attempts", record.attempts > 1 ? record.attempts : undefined)
    .add("postern.code", code)
    .values;
}

export function connectionAttributes(
  record: ConnectionRecord,
  code: ErrorCode | undefined,
): SpanAttributes {
  const { direction, destination, relay, rule, source, endpoint, tlsVersion } = record;
  const isInbound = direction === "inbound";
  const peer = addressOf(isInbound ? record.remote : endpoint);
  return new AttributeList()
    .add("network.transport", "tcp")
    .add("network.peer.address", peer.host)
    .add("network.peer.port", peer.port)
    .add("upstream_cluster", record.cluster || (isInbound ? "local_app" : destination))
    .add("postern.listener", record.listener)
    .add("postern.peer", isInbound ? source : "")
    .add("postern.intention", rule)
    .add("tls.protocol.version", tlsVersion.replace("TLSv", ""))
    .add("postern.received_bytes", relay?.receivedBytes ?? 0)
    .add("postern.sent_bytes", relay?.sentBytes ?? 0)
    .add("error.type", code)
    .add("postern.code", code)
    .values;
}

/** Codes of a server's faults, as the conventions for gRPC list them. */
export const GRPC_FAILURES: ReadonlySet<number> = new Set([2, 4, 12, 13, 14, 15]);

export function grpcStatusOf(
  { request, response, responseTrailers }: ExchangeRecord,
): number | undefined {
  if (!request || !isGrpc(request.fields)) return undefined;
  return readGrpcStatus(responseTrailers ?? []) ?? readGrpcStatus(response?.fields ?? []);
}

/** A query may hold secrets. */
function pathOf(path: string): string {
  const at = path.indexOf("?");
  return at < 0 ? path : path.slice(0, at);
}

/** `10.0.0.7:40312`, `[::1]:80`, `db`. */
function addressOf(text: string): { readonly host: string; readonly port: number | undefined } {
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:]*))(?::(\d+))?$/.exec(text) ?? [];
  return { host: bracketed ?? plain ?? text, port: port === undefined ? undefined : Number(port) };
}
