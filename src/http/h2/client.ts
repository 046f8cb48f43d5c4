/** The client side of HTTP/2. @module */

import type { Stream } from "../../net/mod.ts";
import type {
  ClientConnection,
  ClientEvents,
  ClientExchange,
  HttpEnd,
  ResetReason,
  ResponseEvents,
} from "../exchange.ts";
import { spokenInBytes } from "../first_bytes.ts";
import { type RequestHead, UNKNOWN_LENGTH } from "../head.ts";
import { HeldShare } from "../held_bytes.ts";
import type { Http2Options } from "./connection.ts";
import { Http2ErrorCode, MAX_STREAM_ID, PREFACE } from "./frame.ts";
import { FrameRules } from "./frame_rules.ts";
import type { HeadBlockKind } from "./head_reader.ts";
import { Http2Stream, type StreamConnection } from "./http2_stream.ts";
import { Http2Tunnel } from "./tunnel.ts";
import type { Deadline } from "../../base/mod.ts";

/** Probes of a silent peer while requests are open. */
export interface KeepAliveOptions {
  /** Silence after which a PING is sent. */
  readonly intervalMs: number;
  /** Silence after the PING that ends the connection. */
  readonly timeoutMs: number;
}

export interface Http2ClientOptions extends Http2Options {
  readonly events: ClientEvents;
  /** Absent: idle connections are not probed. */
  readonly keepAlive?: KeepAliveOptions;
}

/** Opens an HTTP/2 client on `stream`, which it takes over; the peer is known to speak HTTP/2. */
export function openHttp2Client(stream: Stream, options: Http2ClientOptions): ClientConnection {
  return new Http2Client(stream, options);
}

/** Limit of informational responses to one request. */
const INFORMATIONAL = 32;

class ClientStream extends Http2Stream implements ClientExchange {
  override events: ResponseEvents;
  readonly head: RequestHead;
  informational = 0;

  constructor(host: StreamConnection, { head, events, held }: {
    readonly head: RequestHead;
    readonly events: ResponseEvents;
    readonly held: HeldShare;
  }) {
    super(0, host, held);
    this.sendWindow = 0;
    this.hasHead = false;
    this.head = head;
    this.events = events;
  }

  override reset(reason: ResetReason): void {
    // A request that has not begun is marked as over, and dropped when its turn comes.
    if (this.id === 0) this.over = true;
    super.reset(reason);
  }

  tunnel(): Stream {
    return new Http2Tunnel(this);
  }

  /** Sends the head. `expectsLong`: the response is probably longer than a stream's first window. */
  begin(id: number, ends: boolean, expectsLong: boolean): void {
    const { host } = this;
    this.id = id;
    host.writer.request(id, this.head, ends);
    if (expectsLong) this.widen();
    if (ends) this.sentEnd();
    else this.windowChanged(host.streamSendWindow);
  }

  /** A complete response cannot break any more. */
  protected override isSettled(): boolean {
    return this.tunnelled ? this.complete : this.receiveEnded;
  }
}

class Http2Client extends FrameRules<ClientStream> implements ClientConnection {
  readonly #events: ClientEvents;
  #probe: Deadline | undefined;
  /** Something was received since the last check. */
  #isAlive = false;
  #nextId = 1;
  #heard = false;
  #draining = false;
  /** The last response exceeded a stream's initial window: the next one probably will, too. */
  #expectsLong = false;
  /** Requests that wait for the server's settings. */
  #waiting: ClientStream[] = [];

  constructor(stream: Stream, options: Http2ClientOptions) {
    super("client", stream, options);
    this.#events = options.events;
    this.output.reserve(PREFACE.length);
    this.output.put(PREFACE);
    this.start();
    if (options.keepAlive) this.#awaitSilence(options.keepAlive);
  }

  #awaitSilence({ intervalMs, timeoutMs }: KeepAliveOptions): void {
    const { deadlines } = this.options;
    const again = () => this.#awaitSilence({ intervalMs, timeoutMs });
    this.#isAlive = false;
    this.#probe = deadlines.after(intervalMs, () => {
      // gRPC servers end a connection that sends PING while no request is open.
      if (this.#isAlive || this.active === 0) return again();
      this.ping();
      this.#probe = deadlines.after(timeoutMs, () => {
        if (this.#isAlive) return again();
        this.fail(Http2ErrorCode.none, "no answer to a PING", "timed_out");
      });
    });
  }

  get capacity(): number {
    if (this.over || this.#draining || this.#nextId > MAX_STREAM_ID) return 0;
    const left = (MAX_STREAM_ID - this.#nextId) / 2 + 1;
    return Math.max(0, Math.min(this.peer.concurrentStreams - this.active, left));
  }

  get keptMs(): number {
    return Infinity;
  }

  override get active(): number {
    return this.streams.size + this.#waiting.length;
  }

  override onData(chunk: Uint8Array): void {
    this.#isAlive = true;
    // SETTINGS come first, and are short: any other first octet belongs to another protocol.
    if (!this.peer.received && !this.#heard && chunk.length > 0) {
      this.#heard = true;
      if (chunk[0] !== 0) {
        return this.protocolError(`answers ${spokenInBytes(chunk)} where Protocol says http2`);
      }
    }
    super.onData(chunk);
  }

  request(
    head: RequestHead,
    ends: boolean,
    events: ResponseEvents,
    held: HeldShare = new HeldShare(this.account),
  ): ClientExchange {
    if (this.capacity === 0) throw new Error("Cannot send a request: no capacity");
    const stream = new ClientStream(this, { head, events, held });
    // A request that may become a tunnel stays open on our side.
    const ended = ends && head.upgrade === "" && head.method !== "CONNECT";
    if (head.upgrade === "" || this.peer.connectProtocol) this.#begin(stream, ended);
    else {
      // The server's settings decide whether extended CONNECT may be sent (RFC 8441 3).
      this.#waiting.push(stream);
      if (this.peer.received) queueMicrotask(() => this.#decide());
    }
    return stream;
  }

  #begin(stream: ClientStream, ends: boolean): void {
    const id = this.#nextId;
    this.#nextId += 2;
    this.streams.add(id, stream);
    this.floods.opened();
    stream.begin(id, ends, this.#expectsLong);
  }

  /** The server's settings have come. */
  #decide(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const stream of waiting) {
      if (stream.over) continue;
      if (this.over) stream.broke("connection", "the connection ended");
      else if (this.#draining) stream.broke("refused", "the connection ends");
      else if (this.peer.connectProtocol) this.#begin(stream, false);
      else stream.broke("internal", "the server does not know extended CONNECT");
    }
  }

  drain(): void {
    if (this.over || this.#draining) return;
    this.#draining = true;
    this.#events.onCapacity();
    if (this.streams.size === 0) this.leave("drained");
  }

  protected partOf(stream: ClientStream | undefined): HeadBlockKind {
    return stream?.hasHead ? "trailers" : "response";
  }

  protected onHead(id: number, stream: ClientStream | undefined, ends: boolean): void {
    if (this.isIdle(id)) return this.protocolError("HEADERS on no stream");
    if (!stream) {
      // A response to a request that we reset may still come, even long after.
      if (this.closed.find(id) !== "ended") return void this.count(this.floods.late());
      return this.fail(Http2ErrorCode.streamClosed, "HEADERS after the end");
    }
    const { fault, tooLarge } = this.heads;
    const { enhanceYourCalm } = Http2ErrorCode;
    if (tooLarge) return this.streamError(stream, enhanceYourCalm, "a head above the limits");
    const { method, upgrade } = stream.head;
    const head = fault === "" ? this.heads.response(ends, method === "HEAD") : undefined;
    if (!head) return this.streamError(stream, Http2ErrorCode.protocol, this.heads.fault);
    if (head.status < 200) {
      if (++stream.informational > INFORMATIONAL) {
        return this.streamError(stream, enhanceYourCalm, "informational without end");
      }
      return stream.events.onInformational(head);
    }
    stream.hasHead = true;
    if (head.status < 300 && (upgrade !== "" || method === "CONNECT")) {
      // A 2xx to an extended CONNECT corresponds to 101 for an upgrade (RFC 8441 5.1).
      if (upgrade !== "") head.status = 101;
      head.length = UNKNOWN_LENGTH;
    }
    const bodiless = method === "HEAD" || head.status === 204 || head.status === 304;
    const length = bodiless ? 0 : head.length;
    stream.announced(length);
    if (length !== UNKNOWN_LENGTH) this.#expectsLong = length > this.limits.streamWindowBytes;
    if (ends) stream.receiveEnded = true;
    stream.events.onResponse(head, ends);
    if (ends && stream.sendEnded && !stream.over) this.finished(stream);
  }

  protected override onGoaway(lastId: number, code: number): void {
    this.#draining = true;
    const refused = this.streams.all().filter(({ id }) => id > lastId);
    for (const stream of refused) {
      this.forget(stream, "reset by us");
      stream.broke("refused", `not begun, by a GOAWAY with code ${code}`);
    }
    if (this.over) return;
    this.#events.onCapacity();
    if (this.streams.size === 0) this.leave("drained");
  }

  protected override onSettings(): void {
    this.#decide();
    if (!this.over) this.#events.onCapacity();
  }

  protected onFinished(): void {
    if (this.over) return;
    if (!this.#draining) return this.#events.onCapacity();
    if (this.streams.size === 0) this.leave("drained");
  }

  protected onOver(end: HttpEnd): void {
    this.#probe?.cancel();
    this.#decide();
    this.#events.onClose(end);
  }

  protected isIdle(id: number): boolean {
    return id >= this.#nextId || id % 2 === 0;
  }
}
