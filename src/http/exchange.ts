/**
 * One request and its response, as seen from a connection that carries it: the same shape for HTTP/1.1 and
 * HTTP/2, for the side that serves and the side that asks. Everything is called back synchronously, within
 * the callback that read the bytes; what is sent leaves together when that callback is over
 * ({@link Stream.write}). Nothing is made for a body but its chunks.
 *
 * @module
 */

import type { Stream } from "../net/mod.ts";
import type { Fields, RequestHead, ResponseHead } from "./head.ts";
import type { HeldShare } from "./held_bytes.ts";

/**
 * Why an exchange broke. `refused`: the peer did not begin to work on it, so that it may be sent again
 * (RFC 9113 8.7); `cancelled`: the other side does not want it any more; `protocol`: what came is against
 * the protocol; `connection`: the connection broke under it; `timed_out`; `overflow`: more came than a
 * limit allows; `internal`: a fault of the peer or of ours.
 */
export type ResetReason =
  | "refused"
  | "cancelled"
  | "protocol"
  | "connection"
  | "timed_out"
  | "overflow"
  | "internal";

/** What one side of an exchange is told of the message that comes in. */
export interface MessageEvents {
  /** Bytes of the body. The chunk is the receiver's for good: to keep, to change, to `send` on. */
  onData(chunk: Uint8Array): void;
  /** The message is complete; trailers where there were some. */
  onEnd(trailers: Fields | undefined): void;
  /** After a `send` that returned false: more can be taken. */
  onDrain(): void;
  /**
   * Last event: it broke before both messages were complete; not our own `reset`. `detail` for people.
   * The end of a response while the request is not complete is told as `onEnd` only.
   */
  onReset(reason: ResetReason, detail: string): void;
}

/** What the side that asks is told. */
export interface ResponseEvents extends MessageEvents {
  /** A 1xx but 101: any number of them come before the response. */
  onInformational(head: ResponseHead): void;
  /**
   * `ends`: the response has no body, and `onEnd` is not called. After a 101, or a 2xx to CONNECT, the
   * exchange is a tunnel from here on: {@link ClientExchange.tunnel} is to be called in this callback.
   */
  onResponse(head: ResponseHead, ends: boolean): void;
}

/** What both sides can do with the message that they send. */
export interface Message {
  /** Bytes of the body; the chunk changes hands. False: stop until `onDrain`. */
  send(chunk: Uint8Array): boolean;
  /** The message is complete. HTTP/1.1 writes trailers where the body is chunked, else drops them. */
  end(trailers?: Fields): void;
  /** Breaks the exchange; over HTTP/1.1 the connection, too, unless everything was complete. */
  reset(reason: ResetReason): void;
  /** Stops and resumes `onData` and `onEnd`, and in time the peer. */
  pause(): void;
  resume(): void;
}

/** A request as the side that serves it has it. */
export interface ServerExchange extends Message {
  readonly request: RequestHead;
  /** The request has no body, and `onEnd` is not called. */
  readonly endsWithHead: boolean;
  /** Bytes that wait for a slower side, here and where its request was sent on to. */
  readonly held: HeldShare;
  /** To be set before the callback that made the exchange returns. */
  events: MessageEvents;
  /**
   * A 1xx but 101; dropped where the client could not understand it (HTTP/1.0), and all but 100 while it
   * does not read: nobody could stop who sends them.
   */
  inform(head: ResponseHead): void;
  /** Exactly once. `ends`: there is no body. */
  respond(head: ResponseHead, ends: boolean): void;
  /**
   * Answers yes to an upgrade or CONNECT (`head.status` 101 or 200; the codec writes what its version
   * wants); what comes and goes from here on is the stream's. `ends` is not said any more.
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
