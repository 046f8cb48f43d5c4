/**
 * The asking side of an HTTP/1.1 connection: one request at a time. Whatever came that was not asked for,
 * or cannot be read in one way only, ends the connection: a byte too many would be the beginning of
 * somebody else's response.
 *
 * @module
 */

import type { Stream, StreamEvents } from "../../net/mod.ts";
import type {
  ClientConnection,
  ClientEvents,
  ClientExchange,
  HttpEnd,
  ResetReason,
  ResponseEvents,
} from "../exchange.ts";
import type { RequestHead } from "../head.ts";
import type { HttpLimits } from "../limits.ts";
import { BodyReader } from "./body_reader.ts";
import { BodyWriter } from "./body_writer.ts";
import { type AskOwner, Http1ClientExchange } from "./client_exchange.ts";
import { HeadReader, PARTIAL, TOO_LARGE } from "./head_reader.ts";
import { ResponseParser } from "./parse_response.ts";
import { Tunnel, type TunnelOwner } from "./tunnel.ts";

export interface Http1ClientOptions {
  readonly limits: HttpLimits;
  readonly events: ClientEvents;
}

/** Asks by HTTP/1.1 on a stream, which is taken over. */
export function askHttp1(stream: Stream, options: Http1ClientOptions): ClientConnection {
  return new Http1Client(stream, options);
}

/** More 1xx than that before a response are a flood. */
const INFORMATIONAL = 32;

type Phase =
  /** Nothing is asked. */
  | "idle"
  | "head"
  | "body"
  | "tunnel"
  | "over";

class Http1Client implements ClientConnection, StreamEvents, AskOwner, TunnelOwner {
  readonly stream: Stream;
  readonly writer: BodyWriter;
  readonly #limits: HttpLimits;
  readonly #events: ClientEvents;
  readonly #heads: HeadReader;
  readonly #parser = new ResponseParser();
  readonly #body: BodyReader;
  #phase: Phase = "idle";
  #exchange: Http1ClientExchange | undefined;
  #tunnel: Tunnel | undefined;
  #informational = 0;
  #draining = false;
  #blocked = false;
  #peerEnded = false;
  #endSeen = false;
  /** The response is complete, and its exchange has not been told yet. */
  #owesEnd = false;
  /** Came while its exchange was paused. */
  #held: Uint8Array | undefined;
  #holding = false;
  #reading = false;
  readonly #later = () => this.#goOn();
  #end: HttpEnd | undefined;

  constructor(stream: Stream, { limits, events }: Http1ClientOptions) {
    this.stream = stream;
    this.writer = new BodyWriter(stream);
    this.#limits = limits;
    this.#events = events;
    this.#heads = new HeadReader(limits.headBytes);
    this.#body = new BodyReader(limits);
    stream.events = this;
  }

  get capacity(): number {
    return this.#phase === "idle" && !this.#draining && !this.#blocked ? 1 : 0;
  }

  get active(): number {
    return this.#exchange || this.#tunnel ? 1 : 0;
  }

  request(head: RequestHead, ends: boolean, events: ResponseEvents): ClientExchange {
    if (this.capacity === 0) throw new Error("Cannot send a request: the connection is busy");
    const exchange = new Http1ClientExchange(this, head, events);
    this.#exchange = exchange;
    this.#phase = "head";
    this.#informational = 0;
    exchange.ask(ends);
    return exchange;
  }

  drain(): void {
    this.#draining = true;
    if (this.#phase === "idle") this.#close("us");
  }

  reset(detail: string): void {
    if (this.#phase === "over") return this.stream.reset();
    this.#break({ by: "us", kind: "reset", detail }, "connection");
  }

  // What the stream tells.

  onData(chunk: Uint8Array): void {
    if (this.#phase === "over") return;
    if (this.#held) this.#keepFor(chunk, 0);
    else this.#read(chunk);
  }

  onEnd(): void {
    this.#peerEnded = true;
    if (!this.#held && !this.#owesEnd) this.#peerIsDone();
  }

  onDrain(): void {
    this.#blocked = false;
    if (this.#tunnel) this.#tunnel.events.onDrain();
    else if (this.#exchange) this.#exchange.events.onDrain();
    else if (this.#phase === "idle") this.#events.onCapacity();
  }

  onClose(reset: boolean, alert: string): void {
    const detail = alert || (reset ? "the connection was reset" : "");
    const hadCapacity = this.capacity > 0;
    this.#phase = "over";
    if (this.#tunnel) {
      const { events } = this.#tunnel;
      this.#tunnel = undefined;
      events.onClose(reset || this.#end?.kind === "reset", alert);
    }
    this.#end ??= { by: reset ? "network" : "peer", kind: reset ? "reset" : "closed", detail };
    this.#tellReset("connection", detail || "the connection was closed");
    if (hadCapacity) this.#events.onCapacity();
    this.#events.onClose(this.#end);
  }

  // What the exchange asks for.

  took(all: boolean): boolean {
    if (!all) this.#blocked = true;
    return all;
  }

  broken(detail: string): void {
    this.#exchange = undefined;
    this.#break({ by: "us", kind: "reset", detail }, "cancelled");
  }

  unwritable(detail: string): void {
    queueMicrotask(() => this.#break({ by: "us", kind: "reset", detail }, "internal"));
  }

  hold(): void {
    if (this.#holding) return;
    this.#holding = true;
    this.stream.pause();
  }

  release(): void {
    if (!this.#holding) return;
    this.#holding = false;
    const waits = this.#held || this.#owesEnd || this.#peerEnded && !this.#endSeen;
    if (this.#reading || !waits) return this.stream.resume();
    // Nothing is told within the call that lets it be told.
    queueMicrotask(this.#later);
  }

  tunnel(): Stream {
    this.#exchange = undefined;
    return this.#tunnel = new Tunnel(this);
  }

  // Reading.

  #goOn(): void {
    if (this.#holding || this.#reading || this.#phase === "over") return;
    if (this.#owesEnd) {
      this.#owesEnd = false;
      this.#complete(false);
    }
    const held = this.#held;
    this.#held = undefined;
    if (held) this.#read(held);
    if (this.#holding) return;
    if (this.#peerEnded) this.#peerIsDone();
    this.stream.resume();
  }

  #read(chunk: Uint8Array): void {
    this.#reading = true;
    let at = 0;
    while (at < chunk.length && !this.#holding) {
      switch (this.#phase) {
        case "idle":
          at = chunk.length;
          this.#wrong("a response that nobody asked for");
          break;
        case "head":
          at = this.#readHead(chunk, at);
          break;
        case "body":
          at = this.#readBody(chunk, at);
          break;
        case "tunnel": {
          const from = at;
          at = chunk.length;
          this.#tunnel?.events.onData(from === 0 ? chunk : chunk.subarray(from));
          break;
        }
        case "over":
          at = chunk.length;
      }
    }
    this.#reading = false;
    if (at < chunk.length && this.#phase !== "over") this.#keepFor(chunk, at);
  }

  /** Keeps what comes while paused; an engine may have had a chunk or two in hand. */
  #keepFor(chunk: Uint8Array, at: number): void {
    const rest = at === 0 ? chunk : chunk.subarray(at);
    const held = this.#held;
    if (!held) {
      this.#held = rest;
      return;
    }
    if (held.length + rest.length > this.#limits.bufferedBytes) {
      const detail = "more came than was asked for";
      return this.#break({ by: "us", kind: "reset", detail }, "overflow");
    }
    const joined = new Uint8Array(held.length + rest.length);
    joined.set(held);
    joined.set(rest, held.length);
    this.#held = joined;
  }

  #readHead(chunk: Uint8Array, at: number): number {
    const exchange = this.#exchange;
    if (!exchange) return chunk.length;
    const end = this.#heads.read(chunk, at);
    if (end === PARTIAL) return chunk.length;
    if (end === TOO_LARGE) {
      const detail = "the head of the response is too large";
      this.#break({ by: "peer", kind: "protocol", detail }, "overflow");
      return chunk.length;
    }
    const parser = this.#parser;
    const fault = parser.parse(this.#heads.text, this.#limits.fields, exchange.asked);
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
        this.#complete(end < chunk.length, true);
        break;
      case "tunnel":
        this.#phase = "tunnel";
        exchange.events.onResponse(head, false);
        break;
      case "chunked":
        this.#body.startChunked();
        this.#phase = "body";
        exchange.events.onResponse(head, false);
        break;
      default:
        this.#body.startLength(body === "length" ? head.length : Infinity);
        this.#phase = "body";
        exchange.events.onResponse(head, false);
    }
    return end;
  }

  #readBody(chunk: Uint8Array, at: number): number {
    const body = this.#body;
    const exchange = this.#exchange;
    const end = body.read(chunk, at);
    if (body.fault) {
      this.#wrong(body.fault);
      return chunk.length;
    }
    const { from, to, complete } = body;
    if (to > from) exchange?.events.onData(chunk.subarray(from, to));
    if (!complete || this.#exchange !== exchange) return end;
    if (this.#holding) this.#owesEnd = true;
    else this.#complete(end < chunk.length);
    return end;
  }

  /** The response is complete. `more`: bytes came after it. `withHead`: it has no body. */
  #complete(more: boolean, withHead = false): void {
    const exchange = this.#exchange;
    if (!exchange) return;
    const { head, persistent } = this.#parser;
    this.#exchange = undefined;
    const requestIsComplete = exchange.leave();
    this.#holding = false;
    const keep = persistent && requestIsComplete && !more && !this.#held && !this.#peerEnded &&
      !this.#draining;
    this.#phase = keep ? "idle" : "over";
    if (more || this.#held) {
      this.#end ??= { by: "peer", kind: "protocol", detail: "more came than the response" };
    }
    if (!keep) {
      this.#end ??= { by: persistent ? "us" : "peer", kind: "closed", detail: "" };
      // Half a request is no request: the server is to see that.
      if (requestIsComplete) this.stream.close();
      else this.stream.reset();
    }
    if (withHead) exchange.events.onResponse(head, true);
    else exchange.events.onEnd(this.#body.trailers);
    if (this.capacity > 0) this.#events.onCapacity();
  }

  #wrong(detail: string): void {
    this.#break({ by: "peer", kind: "protocol", detail }, "protocol");
  }

  #peerIsDone(): void {
    if (this.#endSeen) return;
    this.#endSeen = true;
    switch (this.#phase) {
      case "idle":
        return this.#close("peer");
      case "tunnel":
        return this.#tunnel?.events.onEnd();
      case "body":
        if (this.#body.left === Infinity && this.#parser.body === "until_close") {
          return this.#complete(false);
        }
        return this.#break(
          {
            by: "peer",
            kind: "closed",
            detail: "the server ended the connection within a response",
          },
          "connection",
        );
      case "head":
        return this.#break(
          {
            by: "peer",
            kind: "closed",
            detail: "the server ended the connection before a response",
          },
          "connection",
        );
      case "over":
    }
  }

  /** Ends it in order; nothing is open. */
  #close(by: "peer" | "us"): void {
    this.#end ??= { by, kind: "closed", detail: "" };
    this.#phase = "over";
    this.stream.close();
    this.#events.onCapacity();
  }

  #break(end: HttpEnd, reason: ResetReason): void {
    if (this.#phase === "over") return;
    const wasIdle = this.#phase === "idle";
    this.#end ??= end;
    this.#phase = "over";
    this.#held = undefined;
    this.stream.reset();
    this.#tellReset(reason, end.detail);
    if (wasIdle) this.#events.onCapacity();
  }

  #tellReset(reason: ResetReason, detail: string): void {
    const exchange = this.#exchange;
    this.#exchange = undefined;
    exchange?.leave();
    exchange?.events.onReset(reason, detail);
  }
}
