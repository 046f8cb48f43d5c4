/** The interface of the gRPC client: calls that stream messages, in order, and how they ended. @module */

import type { Address, Clock, Random } from "../base/mod.ts";
import { type DialEngine, type DialTls, GRPC_STATUS } from "../http/mod.ts";

/** Names are in lower case, and have no meaning in HTTP/2 or gRPC. */
export type Metadata = Readonly<Record<string, string>>;

export interface MessageTypes<Request, Response> {
  encode(request: Request): Uint8Array;
  /** Throws for bytes that are no such message: the call ends then. */
  decode(bytes: Uint8Array): Response;
}

export interface StreamHandler<T> {
  /**
   * While its promise is pending nothing more is read: the peer has to wait, and messages stay in order.
   * An error that it throws ends the call with INTERNAL.
   */
  onMessage(message: T): void | Promise<void>;
  /**
   * Present: the server may have no message to send. Called when none came for as long as a connection may
   * take and a little more; the call goes on. Absent: a call without a message ends, later.
   */
  onSilent?(): void;
  /** Last event, exactly once unless the call was closed here. */
  onEnd(status: GrpcStatus): void;
}

export interface GrpcCall<T> {
  /** Ignored once the call has ended. */
  send(message: T): void;
  halfClose(): void;
  /** Gives the call up; no event comes any more. */
  close(): void;
}

export interface GrpcConnectionOptions {
  readonly engine: DialEngine;
  readonly clock: Clock;
  readonly random: Random;
  /** `null`: plain text. */
  readonly tls: DialTls | null;
  /** Sent with every call. */
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
  /** Called at most once, when the opened link takes no calls any more; running ones end by themselves. */
  readonly onLost: (reason: string) => void;
}

export interface GrpcLimits {
  readonly messageBytes: number;
  /** Bytes of all calls' messages that have begun and are not handled yet. */
  readonly begunBytes: number;
  /** Bytes of our own messages that the server has not accepted. */
  readonly unsentBytes: number;
  /** Time limit for the connection and the server's SETTINGS. */
  readonly connectMs: number;
  /** Time limit for the complete first message of a call. */
  readonly firstMessageMs: number;
  /**
   * A call without a complete message for this long ends, so that a server that only seems alive cannot
   * keep us from the next one. Up to half as much is added at random.
   */
  readonly quietMs: number;
  /** Messages of a call that are taken at once before `messagesPerSecond` applies. */
  readonly messageBurst: number;
  readonly messagesPerSecond: number;
  /** A call that is held back for this long without a break ends. */
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

export interface GrpcStatus {
  /** 0 to 16; any other code of a server counts as UNKNOWN. */
  readonly code: number;
  /** The server's text or ours: bounded, one line, for people. */
  readonly details: string;
}

const NAMES = [
  "OK",
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
] as const;

/** Longest text of a server in a log line. */
const DETAILS_LIMIT = 500;

/** A status whose text, which a server may have written, is fit for a log line. */
export function grpcStatus(code: number, text: string): GrpcStatus {
  // deno-lint-ignore no-control-regex -- a server must not forge lines
  const line = text.slice(0, DETAILS_LIMIT).replace(/[\x00-\x1f\x7f-\x9f\u2028\u2029]/g, " ");
  return { code: NAMES[code] === undefined ? GRPC_STATUS.unknown : code, details: line.trim() };
}

/** `UNAVAILABLE: connection dropped`. */
export function formatStatus({ code, details }: GrpcStatus): string {
  const name = NAMES[code] ?? "UNKNOWN";
  return details === "" || details === name ? name : `${name}: ${details}`;
}
