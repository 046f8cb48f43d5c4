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

/** Callbacks of the client side. */
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

/** The server side of a request. */
export interface ServerExchange extends Message {
  readonly request: RequestHead;
  /** The request has no body, and `onEnd` is not called. */
  readonly endsWithHead: boolean;
  /** Counts bytes that wait for a slower side, here and on the connection to the upstream. */
  readonly held: HeldShare;
  /** To be set before the callback that made the exchange returns. */
  events: MessageEvents;
  /**
   * Sends a 1xx other than 101. It is dropped for an HTTP/1.0 client, which would not understand it. All
   * but 100 are dropped while the client does not read: nothing could stop their sender.
   */
  inform(head: ResponseHead): void;
  /** Exactly once. `ends`: there is no body. */
  respond(head: ResponseHead, ends: boolean): void;
  /**
   * Accepts an upgrade or CONNECT (`head.status` 101 or 200; the codec writes the form that its version
   * needs). All bytes after it belong to the stream, and `ends` has no meaning any more.
   */
  tunnel(head: ResponseHead): Stream;
}

/** A request as the side that asked has it. */
export interface ClientExchange extends Message {
  events: ResponseEvents;
  /** See {@link ResponseEvents.onResponse}. */
  tunnel(): Stream;
}

/** How a connection of HTTP ended. `detail` for people; `""`: in order. */
export interface HttpEnd {
  /** The side that ended it. */
  readonly by: "peer" | "network" | "us";
  /** `protocol`: the peer broke a rule; `flood`: it broke one of those against floods. */
  readonly kind: "closed" | "reset" | "protocol" | "flood" | "timed_out";
  readonly detail: string;
}

/** Callbacks of the owner that serves the requests of a connection. */
export interface ServerEvents {
  /** A head came. `exchange.events` is to be set. */
  onRequest(exchange: ServerExchange): void;
  /**
   * What came is no request that could be answered by anybody, and is answered here: by 400, 431 and
   * their like; `status` 0: by a stream error of HTTP/2, or not at all. No exchange knows of it. For log
   * and counters.
   */
  onInvalid(status: number, detail: string): void;
  /** The connection is over; every exchange has been told before. */
  onClose(end: HttpEnd): void;
}

/** The serving side of a connection. */
export interface ServerConnection {
  /** Exchanges that are open. */
  readonly active: number;
  /** A head has begun, and its end has not come: the same number for as long as it has not; 0: none has. */
  readonly openHead: number;
  /** No new requests: `Connection: close`, GOAWAY in two steps; ends when the last exchange has. */
  drain(): void;
  /** Ends at once, in the order that the protocol has for it. */
  close(detail: string): void;
  /** Breaks it at once. */
  reset(): void;
}

/** Callbacks of the owner of a client connection. */
export interface ClientEvents {
  /** There is room for one more request than before, or `capacity` has become 0. */
  onCapacity(): void;
  /** The connection is over; every exchange has been told before. */
  onClose(end: HttpEnd): void;
}

/** The asking side of a connection. */
export interface ClientConnection {
  /** Requests that could be sent now; 0 for ever once it drains or is over. */
  readonly capacity: number;
  /** Exchanges that are open. */
  readonly active: number;
  /** After how long without a request its server ends it, as it said last; `Infinity`: it did not say. */
  readonly keptMs: number;
  /**
   * Sends a head; only while there is capacity. `ends`: there is no body. `events` is told everything
   * that comes; nothing before this returns. `held`: of the exchange that it is sent for, where there is one.
   */
  request(
    head: RequestHead,
    ends: boolean,
    events: ResponseEvents,
    held?: HeldShare,
  ): ClientExchange;
  /** No new requests; ends when the last exchange has. */
  drain(): void;
  /** Breaks it at once; its exchanges are told. */
  reset(detail: string): void;
}
