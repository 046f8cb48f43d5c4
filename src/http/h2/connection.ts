/** The lifetime of an HTTP/2 connection; `frame_rules.ts` handles incoming frames. @module */

import type { Clock, Deadline, Deadlines } from "../../base/mod.ts";
import { ignoredEvents, type Stream, type StreamEvents } from "../../net/mod.ts";
import type { HttpEnd, HttpLimits } from "../exchange.ts";
import { type HeldAccount, heldByThread } from "../held_bytes.ts";
import { ClosedStreams, type CloseKind, StreamTable } from "./stream_table.ts";
import { Floods } from "./floods.ts";
import { DEFAULT_WINDOW_BYTES, FrameType, Http2ErrorCode, MAX_STREAM_ID } from "./frame.ts";
import { HeadWriter } from "./head_writer.ts";
import { HpackEncoder } from "./hpack/encoder.ts";
import type { Http2Stream, StreamConnection } from "./http2_stream.ts";
import { Output } from "./output.ts";
import { PeerSettings, writeSettings } from "./settings.ts";
import { SharedWindow } from "./shared_window.ts";

export interface Http2Options {
  readonly limits: HttpLimits;
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  /** Account for held bytes; default: one of its own without a caller. */
  readonly account?: HeldAccount;
}

/** A peer that takes longer to acknowledge our settings does not speak HTTP/2, or hangs. */
const SETTINGS_DEADLINE_MS = 10_000;

export abstract class Http2Connection<S extends Http2Stream>
  implements StreamEvents, StreamConnection {
  readonly limits: HttpLimits;
  readonly output: Output;
  readonly writer: HeadWriter;
  readonly account: HeldAccount;
  sendWindow: number = DEFAULT_WINDOW_BYTES;
  protected readonly options: Http2Options;
  protected readonly streams: StreamTable<S> = new StreamTable();
  protected readonly closed: ClosedStreams = new ClosedStreams();
  protected readonly peer: PeerSettings = new PeerSettings();
  readonly floods: Floods;
  /** The highest stream that the peer opened. */
  protected lastPeerId = 0;
  /** Frames on streams above it are ignored. */
  protected lastServedId: number = MAX_STREAM_ID;
  over = false;
  nowMs = 0;
  /** Our window setting, once the peer has acknowledged it. */
  streamReceiveWindow: number = DEFAULT_WINDOW_BYTES;
  protected readonly side: "server" | "client";
  protected readonly encoder: HpackEncoder = new HpackEncoder();
  /** Octets that the peer may still send on all streams together. */
  protected readonly receiveWindow: SharedWindow;
  /** Stream of the DATA that is coming; undefined: its bytes are dropped. */
  protected dataTo: S | undefined;
  protected settingsDeadline: Deadline | undefined;
  readonly #stream: Stream;
  /** Streams with bytes to send and an open window, in turn. */
  #waiting: Http2Stream[] = [];

  constructor(side: "server" | "client", stream: Stream, options: Http2Options) {
    const { limits } = options;
    this.side = side;
    this.#stream = stream;
    this.options = options;
    this.limits = limits;
    this.account = options.account ?? heldByThread.open("");
    this.output = new Output(side, stream);
    this.writer = new HeadWriter(this.encoder, this.output);
    this.floods = new Floods(options.clock);
    this.receiveWindow = new SharedWindow(limits.connectionWindowBytes, this.account.all);
    stream.events = this;
  }

  get active(): number {
    return this.streams.size;
  }

  reset(detail = ""): void {
    if (this.over) return;
    this.finish({ by: "us", kind: "reset", detail });
    this.#stream.reset();
  }

  /** A stream was removed. */
  protected abstract onFinished(): void;
  protected abstract onOver(end: HttpEnd): void;
  /** Queues our first frames; the preface goes before them. */
  protected start(): void {
    writeSettings(this.output, this.limits, this.side);
    this.settingsDeadline = this.options.deadlines.after(
      SETTINGS_DEADLINE_MS,
      () =>
        this.fail(Http2ErrorCode.settingsTimeout, "settings were not acknowledged", "timed_out"),
    );
  }

  get streamSendWindow(): number {
    return this.peer.windowBytes;
  }

  // Events of the underlying stream.

  abstract onData(chunk: Uint8Array): void;

  onEnd(): void {
    if (this.over) return;
    this.finish({ by: "peer", kind: "closed", detail: "" });
    this.#close();
  }

  onDrain(): void {
    this.output.drained();
    this.pump();
  }

  onClose(reset: boolean, alert: string): void {
    if (this.over) return;
    const kind = reset ? "reset" : "closed";
    this.finish({ by: reset ? "network" : "peer", kind, detail: alert });
  }

  // Methods for the streams of the connection.

  schedule(stream: Http2Stream): void {
    stream.scheduled = true;
    this.#waiting.push(stream);
    if (this.#waiting.length === 1 && !this.output.blocked && this.sendWindow > 0) this.pump();
  }

  giveBack(size: number): void {
    if (this.over) return;
    const more = this.receiveWindow.free(size, this.nowMs);
    if (more > 0) this.output.frame32(FrameType.windowUpdate, 0, more);
  }

  resetStream(stream: Http2Stream, code: Http2ErrorCode): void {
    stream.forgetSending();
    this.output.frame32(FrameType.rstStream, stream.id, code);
    this.forget(stream, "reset by us");
  }

  finished(stream: Http2Stream): void {
    this.forget(stream, "ended");
  }

  protected forget(stream: Http2Stream, closing: CloseKind): void {
    stream.gone();
    this.streams.delete(stream.id);
    this.closed.add(stream.id, closing);
    if (closing === "reset by us") this.allowLate(Math.max(0, stream.receiveWindow));
    else if (closing === "ended") this.floods.ended();
    if (this.dataTo === stream) this.dataTo = undefined;
    this.onFinished();
  }

  protected sizeError(): void {
    this.fail(Http2ErrorCode.frameSize, "a frame of the wrong size");
  }

  protected protocolError(detail: string): void {
    this.fail(Http2ErrorCode.protocol, detail);
  }

  protected flood(detail: string): void {
    this.fail(Http2ErrorCode.enhanceYourCalm, detail, "flood");
  }

  /** The peer broke a rule that concerns the connection. */
  protected fail(code: Http2ErrorCode, detail: string, kind: HttpEnd["kind"] = "protocol"): void {
    if (this.over) return;
    this.goaway(code);
    this.finish({ by: "peer", kind, detail });
    this.#close();
  }

  /** A peer that broke a rule has no use for queued frames, and could have them held for long. */
  #close(): void {
    this.output.close();
    if (this.output.blocked) this.#stream.reset();
    else this.#stream.close();
  }

  /** Ends it in order. */
  protected leave(detail: string): void {
    if (this.over) return;
    this.goaway(Http2ErrorCode.none);
    this.finish({ by: "us", kind: "closed", detail });
    this.output.close();
    this.#stream.close();
    if (!this.output.blocked) return;
    // Limits the time that the peer has to read the last frames.
    this.options.deadlines.after(LINGER_MS, () => this.#stream.reset());
  }

  protected ping(): void {
    this.output.frame(FrameType.ping, 0, 0, 8);
    this.output.put(PING);
  }

  protected goaway(
    code: Http2ErrorCode,
    lastId = Math.min(this.lastPeerId, this.lastServedId),
  ): void {
    this.output.frame(FrameType.goaway, 0, 0, 8);
    this.output.put32(lastId);
    this.output.put32(code);
  }

  /** Counts the reset of a client's stream; a server may reset our streams as it likes. */
  protected countReset(startedMs: number): boolean {
    return this.side === "server" && this.count(this.floods.reset(startedMs));
  }

  /** We reset a stream; `receiveWindow` octets for it may be under way. */
  protected allowLate(receiveWindow: number): void {
    // Until our settings are acknowledged, the peer may count with a larger window than we do.
    const unknown = this.limits.streamWindowBytes - this.streamReceiveWindow;
    this.floods.resetByUs(receiveWindow + Math.max(0, unknown));
  }

  /** Whether the count revealed a flood, which ends the connection. */
  protected count(flood: string): boolean {
    if (flood === "") return false;
    this.flood(flood);
    return true;
  }

  /** Ends all streams and notifies their owners, then the owner of the connection. */
  protected finish(end: HttpEnd): void {
    this.over = true;
    this.#stream.events = ignoredEvents;
    this.settingsDeadline?.cancel();
    this.receiveWindow.end();
    this.dataTo = undefined;
    this.#waiting.length = 0;
    // A peer that never spoke HTTP/2 will not do so on another attempt.
    const isNoPeer = end.kind === "protocol" && !this.peer.received;
    const reason = isNoPeer ? "protocol" : "connection";
    const detail = end.detail === "" ? "the connection ended" : end.detail;
    for (const stream of this.streams.all()) {
      stream.gone();
      this.streams.delete(stream.id);
      stream.broke(reason, detail);
    }
    this.onOver(end);
  }

  /** Sends queued bytes, a frame of each stream in turn, while the window and the output allow. */
  protected pump(): void {
    const waiting = this.#waiting;
    while (waiting.length > 0 && this.sendWindow > 0 && !this.output.blocked && !this.over) {
      const stream = waiting.shift() as Http2Stream;
      stream.scheduled = false;
      if (stream.sendQueued() && !stream.scheduled) {
        stream.scheduled = true;
        waiting.push(stream);
      }
    }
  }
}

/** Time for the peer to read the last frames after an orderly end. */
const LINGER_MS = 10_000;
const PING = new Uint8Array(8);
