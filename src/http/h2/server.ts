/** The server side of HTTP/2. @module */

import type { Deadline } from "../../base/mod.ts";
import type { Stream } from "../../net/mod.ts";
import {
  type HttpEnd,
  ignoredMessage,
  type MessageEvents,
  type ResetReason,
  type ServerConnection,
  type ServerEvents,
  type ServerExchange,
} from "../exchange.ts";
import { spokenInBytes } from "../first_bytes.ts";
import { type RequestHead, type ResponseHead, UNKNOWN_LENGTH } from "../head.ts";
import { HeldShare } from "../held_bytes.ts";
import type { Http2Options } from "./connection.ts";
import { Http2ErrorCode, MAX_STREAM_ID, PREFACE } from "./frame.ts";
import { FrameRules } from "./frame_rules.ts";
import type { HeadBlockKind } from "./head_reader.ts";
import { Http2Stream, type StreamConnection } from "./http2_stream.ts";
import { Http2Tunnel } from "./tunnel.ts";

export interface ServeHttp2Options extends Http2Options {
  readonly events: ServerEvents;
}

/** Serves HTTP/2 on `stream`; bytes read before are passed to its events afterwards. */
export function serveHttp2(stream: Stream, options: ServeHttp2Options): ServerConnection {
  return new Http2Server(stream, options);
}

/** Time that a drain waits for requests which the client sent before it received the GOAWAY. */
const DRAIN_MS = 5_000;

class ServerStream extends Http2Stream implements ServerExchange {
  readonly request: RequestHead;
  readonly endsWithHead: boolean;
  override events: MessageEvents = ignoredMessage;
  #responded = false;

  constructor(id: number, host: StreamConnection, request: RequestHead, ends: boolean) {
    super(id, host, new HeldShare(host.account));
    this.request = request;
    this.receiveEnded = ends;
    this.announced(request.length);
    const wantsTunnel = request.method === "CONNECT" || request.upgrade !== "";
    this.endsWithHead = ends || wantsTunnel;
    if (ends || !wantsTunnel) return;
    // Bytes of a tunnel wait until it is accepted; if it is refused, the stream is reset.
    this.pause();
    this.onSent = () => this.reset("cancelled");
  }

  inform(head: ResponseHead): void {
    if (this.over || this.#responded) return;
    if (head.status !== 100 && this.host.output.blocked) return;
    this.host.writer.response(this.id, head, false);
  }

  respond(head: ResponseHead, ends: boolean): void {
    if (this.over || this.#responded) return;
    this.#responded = true;
    this.host.writer.response(this.id, head, ends);
    if (ends) this.sentEnd();
  }

  tunnel({ fields }: ResponseHead): Stream {
    // A tunnel of HTTP/2 has neither status 101 nor a length (RFC 9113 8.5, RFC 8441 5).
    this.respond({ status: 200, length: UNKNOWN_LENGTH, fields }, false);
    return new Http2Tunnel(this);
  }

  /** A complete response does not need the rest of its request (RFC 9113 8.1). */
  protected override resetCode(reason: ResetReason): Http2ErrorCode {
    return this.sendEnded && !this.tunnelled ? Http2ErrorCode.none : super.resetCode(reason);
  }
}

class Http2Server extends FrameRules<ServerStream> implements ServerConnection {
  readonly #events: ServerEvents;
  #prefaceBytes = 0;
  /** `announced`: GOAWAY was sent, the client may not have it yet; `final`: the last stream is fixed. */
  #drain: "no" | "announced" | "final" = "no";
  #drainDeadline: Deadline | undefined;

  constructor(stream: Stream, options: ServeHttp2Options) {
    super("server", stream, options);
    this.#events = options.events;
    this.start();
  }

  drain(): void {
    if (this.over || this.#drain !== "no") return;
    this.#drain = "announced";
    this.goaway(Http2ErrorCode.none, MAX_STREAM_ID);
    this.ping();
    this.#drainDeadline = this.options.deadlines.after(DRAIN_MS, () => this.#drainFinally());
  }

  close(detail: string): void {
    this.leave(detail);
  }

  override onData(chunk: Uint8Array): void {
    if (this.#prefaceBytes === PREFACE.length) return super.onData(chunk);
    const size = Math.min(PREFACE.length - this.#prefaceBytes, chunk.length);
    for (let i = 0; i < size; i++) {
      if (chunk[i] === PREFACE[this.#prefaceBytes++]) continue;
      return this.protocolError(`the caller speaks ${spokenInBytes(chunk)} where HTTP/2 is spoken`);
    }
    if (size < chunk.length) super.onData(chunk.subarray(size));
  }

  protected partOf(stream: ServerStream | undefined): HeadBlockKind {
    return stream ? "trailers" : "request";
  }

  protected onHead(id: number, _stream: undefined, ends: boolean): void {
    if (id % 2 === 0) return this.protocolError("a stream of the wrong side");
    if (id <= this.lastPeerId) return this.#headersAfterEnd(id);
    this.lastPeerId = id;
    if (id > this.lastServedId) {
      if (!this.count(this.floods.late())) this.passOver(id);
      return;
    }
    this.floods.opened();
    if (this.streams.size >= this.limits.concurrentStreams) {
      return this.resetUnknown(id, Http2ErrorCode.refusedStream);
    }
    const { heads } = this;
    const head = heads.fault === "" && !heads.tooLarge ? heads.request(ends) : undefined;
    if (!head || heads.unmetExpectation) return this.#invalid(id, ends);
    const exchange = new ServerStream(id, this, head, ends);
    this.streams.add(id, exchange);
    this.#events.onRequest(exchange);
  }

  protected override onPingAck(): void {
    if (this.#drain === "announced") this.#drainFinally();
  }

  protected onFinished(): void {
    if (this.#drain === "final" && this.streams.size === 0) this.leave("drained");
  }

  protected onOver(end: HttpEnd): void {
    this.#drainDeadline?.cancel();
    this.#events.onClose(end);
  }

  protected isIdle(id: number): boolean {
    return id > this.lastPeerId || id % 2 === 0;
  }

  #drainFinally(): void {
    if (this.over || this.#drain === "final") return;
    this.#drain = "final";
    this.#drainDeadline?.cancel();
    this.lastServedId = this.lastPeerId;
    if (this.streams.size === 0) return this.leave("drained");
    this.goaway(Http2ErrorCode.none);
  }

  /** Refuses a request that is malformed, too large or has an unsupported expectation. */
  #invalid(id: number, ends: boolean): void {
    const { fault, tooLarge } = this.heads;
    if (fault !== "") {
      this.resetUnknown(id, Http2ErrorCode.protocol);
      return this.#events.onInvalid(0, fault);
    }
    const status = tooLarge ? 431 : 417;
    this.writer.response(id, { status, length: UNKNOWN_LENGTH, fields: [] }, true);
    if (ends) this.closed.add(id, "ended");
    else this.resetUnknown(id, Http2ErrorCode.none);
    this.#events.onInvalid(status, tooLarge ? "a head above the limits" : "an unknown expectation");
  }

  #headersAfterEnd(id: number): void {
    const closing = this.closed.find(id);
    if (closing === "reset by us") return void this.count(this.floods.late());
    if (closing === undefined) return this.protocolError("a stream that was passed over");
    this.fail(Http2ErrorCode.streamClosed, "HEADERS after the end");
  }
}
