/** The HTTP/2 connections that calls go over: how they are dialled, and the head of a call. @module */

import { type Address, Deadlines, formatAddress } from "../base/mod.ts";
import {
  addField,
  ClientPool,
  DEFAULT_HTTP_LIMITS,
  type DialFailure,
  dialFailureOf,
  dialServer,
  type Fields,
  type HttpEnd,
  type HttpLimits,
  type KeptConnection,
  type PoolEvents,
  type PoolFault,
  type ReachedServer,
  UNKNOWN_LENGTH,
} from "../http/mod.ts";
import type { AnyCall, SharedContext } from "./call.ts";
import { DEFAULT_GRPC_LIMITS, type GrpcConnectionOptions, type Metadata } from "./types.ts";

export type CallConnection = KeptConnection<ReachedServer>;

interface CallConnectionsOptions {
  readonly connection: GrpcConnectionOptions;
  readonly address: () => Address;
  readonly events: PoolEvents<ReachedServer, DialFailure>;
}

const HTTP_LIMITS: HttpLimits = {
  ...DEFAULT_HTTP_LIMITS,
  // More than a server's first flight of 1,000 secrets; unread messages wait at the server.
  streamWindowBytes: 1024 * 1024,
};

export class CallConnections extends ClientPool<ReachedServer, DialFailure> {
  readonly context: SharedContext;
  readonly #tls: GrpcConnectionOptions["tls"];
  readonly #fields: Fields;

  constructor(options: CallConnectionsOptions) {
    const { connection, address, events } = options;
    const { engine, clock, random, tls, keepAliveMs, keepAliveTimeoutMs } = connection;
    const limits = { ...DEFAULT_GRPC_LIMITS, ...connection.limits };
    super({
      clock,
      deadlines: new Deadlines(clock),
      timers: clock,
      version: "h2",
      limits: HTTP_LIMITS,
      keepAlive: { intervalMs: keepAliveMs, timeoutMs: keepAliveTimeoutMs },
      awaitsSettings: true,
      connectMs: limits.connectMs,
      events,
      dial: (handler) =>
        dialServer({ engine, address: address(), tls, protocols: ["h2"] }, handler),
      failureOf,
    });
    this.context = { clock, random, limits, begun: { bytes: 0, limitBytes: limits.begunBytes } };
    this.#tls = tls;
    this.#fields = fieldsOf(connection.metadata);
  }

  /** Only while the connection has room. */
  start(call: AnyCall, connection: CallConnection): void {
    const tls = this.#tls;
    const { address } = connection.reached;
    const head = {
      method: "POST",
      scheme: tls ? "https" : "http",
      authority: tls?.serverName ??
        (address.kind === "unix" ? "localhost" : formatAddress(address)),
      path: call.path,
      upgrade: "",
      length: UNKNOWN_LENGTH,
      saysLength: false,
      expectsContinue: false,
      fields: withMetadata(this.#fields, call.metadata),
      version: "HTTP/2",
    } as const;
    call.start((events) => connection.request(head, { ends: false }, events));
  }
}

function fieldsOf(metadata: Metadata): Fields {
  const fields: Fields = [];
  addField(fields, "te", "trailers");
  addField(fields, "content-type", "application/grpc");
  addField(fields, "user-agent", "grpc-postern");
  addField(fields, "grpc-accept-encoding", "identity");
  return withMetadata(fields, metadata);
}

function withMetadata(fields: Fields, metadata: Metadata): Fields {
  const all = [...fields];
  for (const [name, value] of Object.entries(metadata)) addField(all, name, value);
  return all;
}

function failureOf(fault: PoolFault<ReachedServer>): DialFailure {
  switch (fault.kind) {
    case "ended_early":
      return { stage: "http", reason: whyNoHttp2(fault.end) };
    case "takes_no_requests":
      return { stage: "http", reason: "the server takes no calls" };
    default:
      return dialFailureOf(fault);
  }
}

/** A server that refuses our certificate may say so only after the handshake (TLS 1.3). */
function whyNoHttp2({ kind, detail }: HttpEnd): string {
  if (kind === "reset" && detail !== "") return detail;
  return "it does not begin as HTTP/2 does: is it a gRPC server, with TLS or without as configured?";
}
