/**
 * The client side of an HTTP/1.1 connection: one request at a time. Bytes that were not requested, or that
 * are ambiguous, end the connection: a surplus byte would become the beginning of another caller's
 * response.
 *
 * @module
 */

import type { Stream } from "../../net/mod.ts";
import type {
  ClientConnection,
  ClientEvents,
  ClientExchange,
  HttpEnd,
  HttpLimits,
  ResetReason,
  ResponseEvents,
} from "../exchange.ts";
import { fieldOf, type Fields, removeField, type RequestHead } from "../head.ts";
import { HeldShare } from "../held_bytes.ts";
import { partOf } from "../latin1.ts";
import { isNoResponse, spokenInBytes } from "../first_bytes.ts";
import { Http1ClientExchange, type Http1ClientOwner } from "./client_exchange.ts";
import { PARTIAL, TOO_LARGE } from "./read_message.ts";
import { Http1Connection } from "./connection.ts";
import { PROOF, proofOf } from "./websocket.ts";
import { answersInstead, ResponseParser } from "./parse_response.ts";

export interface Http1ClientOptions {
  readonly limits: HttpLimits;
  readonly events: ClientEvents;
}

/** Opens an HTTP/1.1 client on a stream, which it takes over. */
export function openHttp1Client(stream: Stream, options: Http1ClientOptions): ClientConnection {
  return new Http1Client(stream, options);
}

/** Limit of 1xx responses before a response. */
const INFORMATIONAL = 32;

type Phase = "idle" | "head" | "body" | "tunnel" | "over";

class Http1Client extends Http1Connection<Http1ClientExchange>
  implements ClientConnection, Http1ClientOwner {
  readonly #events: ClientEvents;
  readonly #parser = new ResponseParser();
  protected phase: Phase = "idle";
  #informational = 0;

  constructor(stream: Stream, { limits, events }: Http1ClientOptions) {
    super(stream, limits);
    this.#events = events;
  }

  get capacity(): number {
    return this.phase === "idle" && !this.draining && !this.blocked ? 1 : 0;
  }

  get keptMs(): number {
    return this.#parser.keptSeconds * 1000 || Infinity;
  }

  request(
    head: RequestHead,
    ends: boolean,
    events: ResponseEvents,
    held: HeldShare = new HeldShare(this.account),
  ): ClientExchange {
    if (this.capacity === 0) throw new Error("Cannot send a request: the connection is busy");
    const exchange = new Http1ClientExchange(this, { head, events, held });
    this.exchange = exchange;
    this.phase = "head";
    this.#informational = 0;
    exchange.ask(ends);
    return exchange;
  }

  drain(): void {
    this.draining = true;
    if (this.phase === "idle") this.#close("us");
  }

  reset(detail: string): void {
    if (this.phase === "over") return this.stream.reset();
    this.#break({ by: "us", kind: "reset", detail }, "connection");
  }

  // Events of the stream.

  onDrain(): void {
    this.sent();
    if (this.tunnelled) this.tunnelled.events.onDrain();
    else if (this.exchange) this.exchange.events.onDrain();
    else if (this.phase === "idle") this.#events.onCapacity();
  }

  onClose(reset: boolean, alert: string): void {
    const hadCapacity = this.capacity > 0;
    const end = this.closed(reset, alert);
    if (hadCapacity) this.#events.onCapacity();
    this.#events.onClose(end);
  }

  // Methods for the exchange.

  broken(detail: string): void {
    this.exchange = undefined;
    this.#break({ by: "us", kind: "reset", detail }, "cancelled");
  }

  unwritable(detail: string): void {
    queueMicrotask(() => this.#break({ by: "us", kind: "reset", detail }, "internal"));
  }

  // Reading.

  protected step(chunk: Uint8Array, at: number): number {
    switch (this.phase) {
      case "head":
        return this.#readHead(chunk, at);
      case "body":
        return this.#readBody(chunk, at);
      default:
        this.#wrong("a response that nobody asked for");
        return chunk.length;
    }
  }

  protected reportEnd(): void {
    this.#complete();
  }

  protected overflow(): void {
    this.#break({ by: "us", kind: "reset", detail: "more came than was asked for" }, "overflow");
  }

  #readHead(chunk: Uint8Array, at: number): number {
    const exchange = this.exchange;
    if (!exchange) return chunk.length;
    const end = this.heads.read(chunk, at);
    if (end === PARTIAL) {
      const { partial } = this.heads;
      if (isNoResponse(partial)) this.#wrong(answersInstead(spokenInBytes(partial)));
      return chunk.length;
    }
    if (end === TOO_LARGE) {
      const detail = "the head of the response is too large";
      this.#break({ by: "peer", kind: "protocol", detail }, "overflow");
      return chunk.length;
    }
    const parser = this.#parser;
    const fault = parser.parse(this.heads.text, this.limits.fields, exchange.asked);
    if (fault !== undefined) {
      this.#wrong(fault);
      return chunk.length;
    }
    const { head, body } = parser;
    if (head.status < 200 && head.status !== 101) {
      if (++this.#informational > INFORMATIONAL) this.#wrong("too many 1xx before a response");
      else exchange.events.onInformational(head);
      return end;
    }
    switch (body) {
      case "none":
        this.inHand = chunk.length - end;
        this.#complete(true);
        break;
      case "tunnel":
        if (exchange.websocketKey && !takeProof(head.fields, exchange.websocketKey)) {
          this.#wrong("the server did not open a WebSocket");
          break;
        }
        this.phase = "tunnel";
        exchange.events.onResponse(head, false);
        if (!this.tunnelled) this.reset("nobody took the tunnel");
        break;
      case "chunked":
        this.body.startChunked();
        this.phase = "body";
        exchange.events.onResponse(head, false);
        break;
      default:
        this.body.startLength(body === "length" ? head.length : Infinity);
        this.phase = "body";
        exchange.events.onResponse(head, false);
    }
    return end;
  }

  #readBody(chunk: Uint8Array, at: number): number {
    const body = this.body;
    const exchange = this.exchange;
    const end = body.read(chunk, at);
    if (body.fault) {
      this.#wrong(body.fault);
      return chunk.length;
    }
    const { from, to, complete } = body;
    if (to > from) exchange?.events.onData(partOf(chunk, from, to));
    this.inHand = chunk.length - end;
    if (complete && this.exchange === exchange) this.endMessage();
    return end;
  }

  /** The response is complete. `withHead`: it has no body. */
  #complete(withHead = false): void {
    const exchange = this.exchange;
    if (!exchange) return;
    const { head, persistent } = this.#parser;
    const more = this.hasMore;
    this.exchange = undefined;
    const requestIsComplete = exchange.leave();
    this.release();
    const keep = persistent && requestIsComplete && !more && !this.peerEnded && !this.draining;
    this.phase = keep ? "idle" : "over";
    if (more) {
      this.end ??= { by: "peer", kind: "protocol", detail: "more came than the response" };
    }
    if (!keep) {
      this.end ??= { by: persistent ? "us" : "peer", kind: "closed", detail: "" };
      // The server must see that the request is incomplete.
      if (requestIsComplete) this.#closeStream();
      else this.stream.reset();
    }
    if (withHead) exchange.events.onResponse(head, true);
    else exchange.events.onEnd(this.body.trailers);
    if (this.capacity > 0) this.#events.onCapacity();
  }

  #wrong(detail: string): void {
    this.#break({ by: "peer", kind: "protocol", detail }, "protocol");
  }

  protected peerIsDone(): void {
    const phase = this.phase;
    if (phase === "idle") return this.#close("peer");
    if (phase === "body" && this.#parser.body === "until_close") return this.#complete();
    const where = phase === "head" ? "before" : "within";
    const detail = `the server ended the connection ${where} a response`;
    this.#break({ by: "peer", kind: "closed", detail }, "connection");
  }

  /** Ends the idle connection in order. */
  #close(by: "peer" | "us"): void {
    this.end ??= { by, kind: "closed", detail: "" };
    this.phase = "over";
    this.#closeStream();
    this.#events.onCapacity();
  }

  /** The response has come, but the rest of the request could wait for as long as the server likes. */
  #closeStream(): void {
    if (this.blocked) this.stream.reset();
    else this.stream.close();
  }

  #break(end: HttpEnd, reason: ResetReason): void {
    if (this.phase === "over") return;
    const wasIdle = this.phase === "idle";
    this.end ??= end;
    this.phase = "over";
    this.forget();
    // The stream may report its close at once, with a reason that is not the cause.
    this.reportReset(reason, end.detail);
    this.stream.reset();
    if (wasIdle) this.#events.onCapacity();
  }
}

/** Removes the proof: it belongs to a key of ours, which the caller does not know. */
function takeProof(fields: Fields, key: string): boolean {
  const isRight = fieldOf(fields, PROOF) === proofOf(key);
  removeField(fields, PROOF);
  return isRight;
}
