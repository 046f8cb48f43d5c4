/**
 * What the protocols above need of gRPC: calls that stream messages, in order and no faster than they
 * are taken.
 *
 * @module
 */

import type { Address, Clock, Random } from "../base/mod.ts";
import type { DialEngine, DialTls } from "../http/mod.ts";
import type { GrpcStatus } from "./status.ts";

/** Lower-case names that neither HTTP/2 nor gRPC has a meaning for. */
export type Metadata = Readonly<Record<string, string>>;

/** What one method says and hears, as bytes. */
export interface MessageTypes<Request, Response> {
  encode(request: Request): Uint8Array;
  /** Throws what it likes for bytes that are no such message: the call ends then. */
  decode(bytes: Uint8Array): Response;
}

export interface StreamHandler<T> {
  /**
   * While a promise is pending nothing more is read: the peer has to wait, and messages stay in order.
   * What it throws ends the call with INTERNAL.
   */
  onMessage(message: T): void | Promise<void>;
  /**
   * Present: the server may have nothing to say, and has said nothing for as long as a connection may
   * take and a little more. The call goes on. Absent: that ends it, later.
   */
  onSilent?(): void;
  /** Last event, exactly once unless the call was closed here. */
  onEnd(status: GrpcStatus): void;
}

export interface GrpcCall<T> {
  /** Ignored once the call has ended. */
  send(message: T): void;
  /** Nothing more will be sent. */
  halfClose(): void;
  /** Gives the call up; no event comes any more. */
  close(): void;
}

/** Calls to one server. Nothing is dialled before the first call, nor dialled again but for a call. */
export interface GrpcChannel {
  /** `path`: `/package.Service/Method`. Events come later, never before this returns. */
  open<Request, Response>(
    path: string,
    types: MessageTypes<Request, Response>,
    handler: StreamHandler<Response>,
  ): GrpcCall<Request>;
  /** Ends every call without an event, and the connections. */
  close(): void;
}

/** One connection, for those who choose among servers themselves: never dialled again. */
export interface GrpcLink {
  /** The server takes calls; rejects with the reason where it does not. */
  readonly opened: Promise<void>;
  /** As of {@link GrpcChannel}. A call that comes before `opened` fails, as one after the end does. */
  open<Request, Response>(
    path: string,
    types: MessageTypes<Request, Response>,
    options: { readonly handler: StreamHandler<Response>; readonly metadata: Metadata },
  ): GrpcCall<Request>;
  /** No new calls; the connection ends with the last one. */
  drain(): void;
  /** Ends every call without an event, and the connection. */
  close(): void;
}

export interface GrpcConnectionOptions {
  readonly engine: DialEngine;
  readonly clock: Clock;
  readonly random: Random;
  /** `null`: plain text. */
  readonly tls: DialTls | null;
  /** Of every call. */
  readonly metadata: Metadata;
  readonly keepAliveMs: number;
  readonly keepAliveTimeoutMs: number;
  readonly limits?: Partial<GrpcLimits>;
}

export interface GrpcChannelOptions extends GrpcConnectionOptions {
  /** Tried in order, from the next one on after a failure. Not empty. */
  readonly addresses: readonly Address[];
}

export interface GrpcLinkOptions extends GrpcConnectionOptions {
  readonly address: Address;
  /** Once it was opened and takes no calls any more; those on it end by themselves. At most once. */
  readonly onLost: (reason: string) => void;
}

/** What a server can cost us at most. */
export interface GrpcLimits {
  /** One message. */
  readonly messageBytes: number;
  /** Messages that have begun and are not dealt with, of all calls together. */
  readonly begunBytes: number;
  /** Our own messages that the server has not taken. */
  readonly unsentBytes: number;
  /** Until the connection stands and the server has said that it speaks HTTP/2. */
  readonly connectMs: number;
  /** Until the first message of a call; a server that sends one without end runs into it. */
  readonly firstMessageMs: number;
  /**
   * A call on which no message was completed for this long ends, so that a server that only seems alive
   * cannot keep us from the next one. Up to half as much is added by chance.
   */
  readonly quietMs: number;
  /** Messages taken at once before `messagesPerSecond` holds, per call. */
  readonly messageBurst: number;
  readonly messagesPerSecond: number;
  /** A call that has had to be held back for this long without a break ends. */
  readonly floodMs: number;
}

export const DEFAULT_GRPC_LIMITS: GrpcLimits = {
  messageBytes: 16 * 1024 * 1024,
  begunBytes: 64 * 1024 * 1024,
  unsentBytes: 8 * 1024 * 1024,
  connectMs: 10_000,
  firstMessageMs: 30_000,
  quietMs: 30 * 60_000,
  messageBurst: 2_000,
  messagesPerSecond: 100,
  floodMs: 60_000,
};
