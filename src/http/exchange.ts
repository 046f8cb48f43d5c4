/**
 * One request and its response, as seen from a connection that carries it: the same interface for HTTP/1.1
 * and HTTP/2, for servers and clients. All callbacks are synchronous, within the callback that read the
 * bytes; everything sent in that callback leaves together when it returns ({@link Stream.write}). Nothing
 * is allocated for a body but its chunks.
 *
 * @module
 */

import type { Stream } from "../net/mod.ts";
import type { Fields, RequestHead, ResponseHead } from "./head.ts";
import type { HeldShare } from "./held_bytes.ts";

/**
 * Why an exchange broke. `refused`: the peer did not begin to work on it, so that it may be sent again (RFC
 * 9113 8.7); `cancelled`: the other side does not want it any more; `protocol`: the peer broke a rule of
 * the protocol; `connection`: the connection broke under it; `timed_out`; `overflow`: the peer exceeded a
 * limit; `internal`: a fault of the peer or of ours.
 */
export type ResetReason =
  | "refused"
  | "cancelled"
  | "protocol"
  | "connection"
  | "timed_out"
  | "overflow"
  | "internal";

/** Callbacks for the message that one side of an exchange receives. */
export interface MessageEvents {
  /** Bytes of the body. The receiver owns the chunk: it may keep, change or `send` it. */
  onData(chunk: Uint8Array): void;
  /** The message is complete; `trailers`: those of a message that has some. */
  onEnd(trailers: Fields | undefined): void;
  /** After a `send` that returned false: more can be sent. */
  onDrain(): void;
  /**
   * Last event: the exchange broke before both messages were complete, and not by our own `reset`. `detail`
   * is for people. A response that ends before its request is complete is reported by `onEnd` only.
   */
  onReset(reason: ResetReason, detail: string): void;
}

/** Events of a message without a receiver. */
export const ignoredMessage: MessageEvents = {
  onData: () => {},
  onEnd: () => {},
  onDrain: () => {},
  onReset: () => {},
};

export interface ResponseEvents extends MessageEvents {
  /** A 1xx other than 101: any number of them come before the response. */
  onInformational(head: ResponseHead): void;
  /**
   * `ends`: the response has no body, and `onEnd` is not called. After a 101, or a 2xx to CONNECT, the
   * exchange is a tunnel: {@link ClientExchange.tunnel} must be called in this callback.
   */
  onResponse(head: ResponseHead, ends: boolean): void;
}

/** Operations that both sides have on the message that they send. */
export interface Message {
  /** Sends bytes of the body; the receiver owns the chunk. False: stop until `onDrain`. */
  send(chunk: Uint8Array): boolean;
  /** Completes the message. HTTP/1.1 writes trailers when the body is chunked, and drops them otherwise. */
  end(trailers?: Fields): void;
  /** Breaks the exchange; over HTTP/1.1 the connection as well, unless everything was complete. */
  reset(reason: ResetReason): void;
  /** Stops and resumes `onData` and `onEnd`, and in time the peer. */
  pause(): void;
  resume(): void;
}

export interface ServerExchange extends Message {
  readonly request: RequestHead;
  /** The request has no body, and `onEnd` is not called. */
  readonly endsWithHead: boolean;
  /** Counts bytes that wait for a slower side, here and on the connection to the upstream. */
  readonly held: HeldShare;
  /** Must be set before the callback that made the exchange returns. */
  events: MessageEvents;
  /** Sends a 1xx, not 101. Dropped for HTTP/1.0; all but 100 while the client does not read. */
  inform(head: ResponseHead): void;
  /** Sends the head, exactly once. `ends`: there is no body. */
  respond(head: ResponseHead, ends: boolean): void;
  /**
   * Accepts an upgrade or CONNECT (`head.status` 101 or 200; the codec writes the form that its version
   * needs). All bytes after it belong to the stream, and `ends` has no meaning any more.
   */
  tunnel(head: ResponseHead): Stream;
}

export interface ClientExchange extends Message {
  events: ResponseEvents;
  /** See {@link ResponseEvents.onResponse}. */
  tunnel(): Stream;
}

/** How an HTTP connection ended. `detail` is for people; `""`: in order. */
export interface HttpEnd {
  readonly by: "peer" | "network" | "us";
  /** `protocol`: the peer broke a rule; `flood`: it broke a rule against floods. */
  readonly kind: "closed" | "reset" | "protocol" | "flood" | "timed_out";
  readonly detail: string;
}

export interface ServerEvents {
  /** A head came. The handler must set `exchange.events`. */
  onRequest(exchange: ServerExchange): void;
  /**
   * The bytes that came are not a valid request, and the codec itself refuses them: by 400, 431 and the
   * like; `status` 0: by a stream error of HTTP/2, or without an answer. There is no exchange. For log and
   * counters.
   */
  onInvalid(status: number, detail: string): void;
  /** The connection is over; every exchange has been notified before. */
  onClose(end: HttpEnd): void;
}

export interface ServerConnection {
  /** Exchanges that are open. */
  readonly active: number;
  /** A number for the head that has begun and is not complete, the same until it is; 0: there is none. */
  readonly openHead: number;
  /** Takes no new requests (`Connection: close`, GOAWAY in two steps); ends with the last exchange. */
  drain(): void;
  /** Ends at once, in the orderly form of the protocol. */
  close(detail: string): void;
  reset(): void;
}

export interface ClientEvents {
  /** One more request can be sent than before, or `capacity` has become 0. */
  onCapacity(): void;
  /** The connection is over; every exchange has been notified before. */
  onClose(end: HttpEnd): void;
}

export interface ClientConnection {
  /** Requests that could be sent now; 0 for good once it drains or is over. */
  readonly capacity: number;
  /** Exchanges that are open. */
  readonly active: number;
  /** Idle time after which the server ends the connection, as announced last; `Infinity`: not announced. */
  readonly keptMs: number;
  /**
   * Sends a head; only while there is capacity. `ends`: there is no body. `events` is called for everything
   * that comes, and not before this returns. `held`: the share of the exchange that the request is sent
   * for, if there is one.
   */
  request(
    head: RequestHead,
    ends: boolean,
    events: ResponseEvents,
    held?: HeldShare,
  ): ClientExchange;
  /** Takes no new requests; ends when the last exchange has ended. */
  drain(): void;
  /** Breaks it at once; its exchanges are notified. */
  reset(detail: string): void;
}

export interface HttpLimits {
  /** Bytes of the head of a request or response, first line included; also the limit for trailers. */
  readonly headBytes: number;
  readonly fields: number;
  /** Bytes of one exchange that wait for a slower side; a sender that exceeds it is paused. */
  readonly bufferedBytes: number;
  /** Streams open at once on one HTTP/2 connection to our server. */
  readonly concurrentStreams: number;
  /** HTTP/2 flow control: the initial windows that we give a peer for one stream and for a connection. */
  readonly streamWindowBytes: number;
  readonly connectionWindowBytes: number;
}

export const DEFAULT_HTTP_LIMITS: HttpLimits = {
  headBytes: 60 * 1024,
  fields: 100,
  bufferedBytes: 256 * 1024,
  concurrentStreams: 1024,
  streamWindowBytes: 64 * 1024,
  connectionWindowBytes: 1024 * 1024,
};
