/** The server side of an HTTP/1.1 connection: one request at a time, in order. @module */

import type { Deadline, Deadlines } from "../../base/mod.ts";
import type { Stream } from "../../net/mod.ts";
import type { HttpLimits, ServerConnection, ServerEvents } from "../exchange.ts";
import { UNKNOWN_LENGTH } from "../head.ts";
import { type HeldAccount, HeldShare } from "../held_bytes.ts";
import { partOf } from "../latin1.ts";
import { isNoRequest, spokenInBytes } from "../first_bytes.ts";
import { refusal, writeText } from "./write_message.ts";
import { PARTIAL, TOO_LARGE } from "./read_message.ts";
import { Http1Connection } from "./connection.ts";
import { HEAD_TOO_LARGE, type HeadFault } from "./parse_fields.ts";
import { RequestParser } from "./parse_request.ts";
import { Http1ServerExchange, type Http1ServerOwner } from "./server_exchange.ts";

export interface Http1ServerOptions {
  readonly limits: HttpLimits;
  readonly events: ServerEvents;
  readonly deadlines: Deadlines;
  /** Account for held bytes; default: one of its own without a caller. */
  readonly account?: HeldAccount;
}

/** Serves HTTP/1.1 and 1.0 on a stream; bytes read before are passed to its events afterwards. */
export function serveHttp1(stream: Stream, options: Http1ServerOptions): ServerConnection {
  return new Http1Server(stream, options);
}

/**
 * Time for a client to end a connection that we have ended: closing with unread bytes would break the last
 * response (RFC 9112 9.6). Also the time for a body that is no longer wanted.
 */
const LINGER_MS = 1000;
/** Time for a client that has been closed to read the last bytes. */
const UNREAD_MS = 10_000;
/** Time that an idle connection which is drained waits for a request that is already under way. */
const DRAIN_MS = 1000;
/**
 * A client that ended its half may still read, or be gone. Only a write shows the difference, and a handler
 * may have nothing to write for hours. A client that has no response after this time counts as gone.
 */
const HALF_ENDED_MS = 1000;

const BLANK_LINES: HeadFault = { status: 400, detail: "more than one empty line before a request" };

/**
 * `head`: also between requests; `answer`: only the response is incomplete; `drain`: it was not taken yet;
 * `discard`: only the request's body is incomplete; `over`: all is sent, and incoming bytes are ignored.
 */
type Phase = "head" | "body" | "answer" | "drain" | "discard" | "over";

class Http1Server extends Http1Connection<Http1ServerExchange>
  implements ServerConnection, Http1ServerOwner {
  readonly #events: ServerEvents;
  readonly #deadlines: Deadlines;
  readonly #parser = new RequestParser();
  protected phase: Phase = "head";
  /** The connection serves another request after this response. */
  #keep = false;
  /** An empty line came before the request. */
  #blank = false;
  #deadline: Deadline | undefined;

  constructor(stream: Stream, options: Http1ServerOptions) {
    const { limits, events, deadlines, account } = options;
    super(stream, limits, account);
    this.#events = events;
    this.#deadlines = deadlines;
  }

  get openHead(): number {
    return this.phase === "head" && this.heads.begun ? this.heads.collected : 0;
  }

  drain(): void {
    if (this.draining) return;
    this.draining = true;
    if (this.#isIdle) this.#leaveSoon();
  }

  get #isIdle(): boolean {
    return this.phase === "head" && !this.heads.begun && !this.hasMore;
  }

  /** A request may be under way, and not every client sends it again: it is answered as the last one. */
  #leaveSoon(): void {
    this.#deadline?.cancel();
    this.#deadline = this.#deadlines.after(DRAIN_MS, () => {
      if (this.#isIdle) this.#finish();
    });
  }

  close(detail: string): void {
    this.end ??= { by: "us", kind: "closed", detail };
    // A body that ends with the connection would look complete.
    if (this.exchange?.responded) return this.reset();
    this.reportReset("connection", detail);
    this.phase = "over";
    this.#closeStream();
  }

  reset(): void {
    this.end ??= { by: "us", kind: "reset", detail: "" };
    this.reportReset("connection", "the connection was broken off");
    this.#breakOff();
  }

  // Events of the stream.

  onDrain(): void {
    this.sent();
    if (this.tunnelled) return this.tunnelled.events.onDrain();
    if (this.phase === "drain") this.#next();
    else this.exchange?.events.onDrain();
  }

  onClose(reset: boolean, alert: string): void {
    this.#deadline?.cancel();
    this.#events.onClose(this.closed(reset, alert));
  }

  // Methods for the exchange.

  begins(ends: boolean, lasts: boolean): boolean {
    const { complete, left } = this.body;
    // The part of an unwanted body that was read already costs nothing. A client that waits for a 100 and
    // gets the response instead may continue with the body or with its next request: both look the same.
    const early = !complete && (ends && left > this.inHand || !this.exchange?.continued);
    this.#keep = this.#parser.persistent && lasts && !early && !this.draining &&
      !this.#couldBeTunnel();
    return this.#keep;
  }

  /** A refused client may have sent bytes for its tunnel: they must not be read as a request. */
  #couldBeTunnel(): boolean {
    const request = this.exchange?.request;
    if (request?.method === "CONNECT") return true;
    return request?.upgrade !== "" && this.hasMore;
  }

  ended(): void {
    this.exchange = undefined;
    if (this.phase === "body" && this.#keep) {
      this.phase = "discard";
      this.#linger();
      this.release();
    } else {
      this.phase = "drain";
      if (!this.blocked) this.#next();
    }
  }

  broken(detail: string): void {
    this.exchange = undefined;
    this.end ??= { by: "us", kind: "reset", detail };
    this.#breakOff();
  }

  cut(detail: string): void {
    // A body that ends with the connection would look complete, and a blocked stream would wait for the client.
    const isOpenEnded = !this.exchange?.responded || this.writer.framing === "until_close";
    if (isOpenEnded || this.blocked) return this.broken(detail);
    this.exchange = undefined;
    this.end ??= { by: "us", kind: "reset", detail };
    this.phase = "over";
    this.stream.close();
  }

  // Reading.

  protected step(chunk: Uint8Array, at: number): number {
    switch (this.phase) {
      case "head":
        return this.#readHead(chunk, at);
      case "body":
      case "discard":
        return this.#readBody(chunk, at);
      default:
        this.hold();
        return at;
    }
  }

  protected reportEnd(): void {
    this.exchange?.events.onEnd(this.body.trailers);
  }

  protected overflow(): void {
    this.reportReset("overflow", "more came than was asked for");
    this.reset();
  }

  #readHead(chunk: Uint8Array, at: number): number {
    const end = this.heads.read(chunk, at);
    if (end === PARTIAL) {
      const { partial } = this.heads;
      if (!isNoRequest(partial)) return chunk.length;
      // The same response as Envoy's, though few other protocols understand it.
      const detail = `the caller speaks ${spokenInBytes(partial)} where HTTP is spoken`;
      return this.#refuse({ status: 400, detail }, chunk.length);
    }
    if (end === TOO_LARGE) return this.#refuse(HEAD_TOO_LARGE, chunk.length);
    const { text } = this.heads;
    // Some clients send an extra empty line after a body (RFC 9112 2.2).
    const skipped = text.startsWith("\r\n") ? 2 : 0;
    if (skipped > 0) {
      if (this.#blank) return this.#refuse(BLANK_LINES, chunk.length);
      this.#blank = true;
      if (text.length === skipped) return end;
    }
    this.#blank = false;
    const fault = this.#parser.parse(text, skipped, this.limits.fields);
    if (fault) return this.#refuse(fault, chunk.length);
    const { head, hasBody, asksToKeep } = this.#parser;
    if (!head) return end;
    if (!hasBody) this.body.startLength(0);
    else if (head.length === UNKNOWN_LENGTH) this.body.startChunked();
    else this.body.startLength(head.length);
    this.phase = hasBody ? "body" : "answer";
    this.inHand = chunk.length - end;
    const exchange = new Http1ServerExchange(this, head, {
      endsWithHead: !hasBody,
      asksToKeep,
      held: new HeldShare(this.account),
    });
    this.exchange = exchange;
    this.#events.onRequest(exchange);
    return end;
  }

  #readBody(chunk: Uint8Array, at: number): number {
    const body = this.body;
    const end = body.read(chunk, at);
    const { from, to } = body;
    this.inHand = chunk.length - end;
    if (body.fault) return this.#refuse({ status: 400, detail: body.fault }, chunk.length);
    const exchange = this.exchange;
    const { complete } = body;
    if (complete) {
      if (this.phase === "discard") this.#discarded();
      else this.phase = "answer";
    }
    if (to > from) exchange?.events.onData(partOf(chunk, from, to));
    if (complete && exchange && this.exchange === exchange) this.endMessage();
    return end;
  }

  #discarded(): void {
    this.#deadline?.cancel();
    this.phase = "drain";
    if (!this.blocked) this.#next();
  }

  /** The response is complete and has left: serves the next request, or ends the connection. */
  #next(): void {
    const isLast = this.peerEnded && !this.hasMore;
    if (!this.#keep || isLast) return this.#finish();
    this.phase = "head";
    // The response announced that the connection stays, before the drain began.
    if (this.draining) this.#leaveSoon();
    this.release();
  }

  #refuse(fault: HeadFault, at: number): number {
    const { status, detail } = fault;
    const exchange = this.exchange;
    this.exchange = undefined;
    exchange?.leave();
    this.end ??= { by: "peer", kind: "protocol", detail };
    if (exchange) exchange.events.onReset("protocol", detail);
    else this.#events.onInvalid(status, detail);
    if (exchange?.responded || this.phase === "discard") this.#breakOff();
    else if (this.phase !== "over") {
      if (status !== 0) writeText(this.stream, refusal(status));
      this.#finish();
    }
    return at;
  }

  protected peerIsDone(): void {
    switch (this.phase) {
      case "head":
      case "discard":
        return this.#finish();
      case "body":
        this.reportReset("connection", "the client ended the connection within a request");
        return this.#breakOff();
      case "over":
        return this.#closeStream();
      default:
        this.#keep = false;
        this.#deadline?.cancel();
        this.#deadline = this.#deadlines.after(HALF_ENDED_MS, () => this.#takeForGone());
    }
  }

  #takeForGone(): void {
    if (!this.exchange) return;
    this.end ??= { by: "peer", kind: "closed", detail: "" };
    this.reportReset("connection", "the client ended the connection before it was answered");
    this.#breakOff();
  }

  #breakOff(): void {
    this.phase = "over";
    this.stream.reset();
  }

  /** Ends the connection in order, when all that was written has left. */
  #finish(): void {
    this.end ??= { by: this.peerEnded ? "peer" : "us", kind: "closed", detail: "" };
    this.phase = "over";
    this.forget();
    if (this.peerEnded) return this.#closeStream();
    this.stream.end();
    this.#linger();
    this.release();
  }

  #linger(): void {
    this.#deadline?.cancel();
    this.#deadline = this.#deadlines.after(LINGER_MS, () => this.#closeStream());
  }

  /** A client that never reads the last bytes would keep the connection, and its memory, for good. */
  #closeStream(): void {
    this.#deadline?.cancel();
    this.#deadline = this.#deadlines.after(UNREAD_MS, () => this.stream.reset());
    this.stream.close();
  }
}
