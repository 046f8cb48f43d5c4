/**
 * The side of HTTP/2 that asks.
 *
 * @module
 */

import type { Stream } from "../../net/mod.ts";
import type {
  ClientConnection,
  ClientEvents,
  ClientExchange,
  HttpEnd,
  ResponseEvents,
} from "../exchange.ts";
import type { RequestHead } from "../head.ts";
import type { Http2Options } from "./connection.ts";
import { ErrorCode, MAX_STREAM_ID, PREFACE } from "./frame.ts";
import { FrameRules } from "./frame_rules.ts";
import type { Part } from "./head_reader.ts";
import { Http2Stream, type StreamHost } from "./http2_stream.ts";

export interface AskHttp2Options extends Http2Options {
  readonly events: ClientEvents;
}

/** Asks for HTTP/2 on `stream`, which is taken over; with prior knowledge that it is spoken there. */
export function askHttp2(stream: Stream, options: AskHttp2Options): ClientConnection {
  return new Http2Client(stream, options);
}

/** Informational responses to one request. */
const INFORMATIONAL = 32;

class ClientStream extends Http2Stream implements ClientExchange {
  override events: ResponseEvents;
  readonly toHead: boolean;
  responded = false;
  informational = 0;

  constructor(id: number, host: StreamHost, method: string, events: ResponseEvents) {
    super(id, host);
    this.toHead = method === "HEAD";
    this.events = events;
  }

  tunnel(): Stream {
    throw new Error("not yet");
  }

  /** The request went out with its head. */
  sentWithHead(): void {
    this.endedWithHead();
  }

  protected override toldAll(): boolean {
    return this.receiveEnded;
  }
}

class Http2Client extends FrameRules<ClientStream> implements ClientConnection {
  readonly #events: ClientEvents;
  #nextId = 1;
  #draining = false;

  constructor(stream: Stream, options: AskHttp2Options) {
    super("client", stream, options);
    this.#events = options.events;
    this.output.reserve(PREFACE.length);
    this.output.put(PREFACE);
    this.start();
  }

  get capacity(): number {
    if (this.over || this.#draining || this.#nextId > MAX_STREAM_ID) return 0;
    const left = (MAX_STREAM_ID - this.#nextId) / 2 + 1;
    return Math.max(0, Math.min(this.peer.concurrentStreams - this.streams.size, left));
  }

  request(head: RequestHead, ends: boolean, events: ResponseEvents): ClientExchange {
    if (this.capacity === 0) throw new Error("Cannot send a request: no capacity");
    const id = this.#nextId;
    this.#nextId += 2;
    const stream = new ClientStream(id, this, head.method, events);
    this.streams.set(id, stream);
    this.floods.opened();
    this.writer.request(id, head, ends);
    if (ends) stream.sentWithHead();
    return stream;
  }

  drain(): void {
    if (this.over || this.#draining) return;
    this.#draining = true;
    this.#events.onCapacity();
    if (this.streams.size === 0) this.leave("drained");
  }

  protected partOf(stream: ClientStream | undefined): Part {
    return stream?.responded ? "trailers" : "response";
  }

  protected onHead(id: number, stream: ClientStream | undefined, ends: boolean): void {
    if (this.isIdle(id)) return this.protocolError("HEADERS on no stream");
    if (!stream) {
      if (this.closed.find(id) === "reset by us") return;
      return this.fail(ErrorCode.streamClosed, "HEADERS after the end");
    }
    const { fault, tooLarge } = this.heads;
    if (tooLarge) {
      return this.streamError(stream, ErrorCode.enhanceYourCalm, "a head above the limits");
    }
    const head = fault === "" ? this.heads.response(ends, stream.toHead) : undefined;
    if (!head) return this.streamError(stream, ErrorCode.protocol, this.heads.fault);
    if (head.status < 200) {
      if (++stream.informational > INFORMATIONAL) {
        return this.streamError(stream, ErrorCode.enhanceYourCalm, "informational without end");
      }
      return stream.events.onInformational(head);
    }
    stream.responded = true;
    const bodiless = stream.toHead || head.status === 204 || head.status === 304;
    stream.expected = bodiless ? 0 : head.length;
    if (ends) stream.receiveEnded = true;
    stream.events.onResponse(head, ends);
    if (ends && stream.sendEnded && !stream.over) this.finished(stream);
  }

  protected onGoaway(lastId: number, code: number): void {
    this.#draining = true;
    const refused = [...this.streams.values()].filter(({ id }) => id > lastId);
    for (const stream of refused) {
      this.forget(stream, "reset by us");
      stream.broke("refused", `not begun, by a GOAWAY with code ${code}`);
    }
    if (this.over) return;
    this.#events.onCapacity();
    if (this.streams.size === 0) this.leave("drained");
  }

  protected onPingAck(): void {}

  protected onSettings(): void {
    this.#events.onCapacity();
  }

  protected onFinished(): void {
    if (this.over) return;
    if (!this.#draining) return this.#events.onCapacity();
    if (this.streams.size === 0) this.leave("drained");
  }

  protected onOver(end: HttpEnd): void {
    this.#events.onClose(end);
  }

  protected isIdle(id: number): boolean {
    return id >= this.#nextId || id % 2 === 0;
  }
}
