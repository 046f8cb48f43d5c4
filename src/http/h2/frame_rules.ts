/**
 * The rules of each frame for both sides of HTTP/2 (RFC 9113 5, 6). A peer that breaks a rule for a stream
 * loses the stream; a peer that breaks a rule for the connection loses the connection.
 *
 * @module
 */

import type { Stream } from "../../net/mod.ts";
import { Http2Connection, type Http2Options } from "./connection.ts";
import { Flag, FrameType, Http2ErrorCode, MAX_WINDOW_BYTES, reasonOf } from "./frame.ts";
import { type FrameHandler, FrameReader, HeaderBlock } from "./frame_reader.ts";
import { type HeadBlockKind, Http2HeadReader } from "./head_reader.ts";
import { HpackDecoder } from "./hpack/decoder.ts";
import type { Http2Stream } from "./http2_stream.ts";
import { passing } from "./output.ts";

export abstract class FrameRules<S extends Http2Stream> extends Http2Connection<S>
  implements FrameHandler {
  /** The head that was decoded last. */
  protected readonly heads: Http2HeadReader;
  readonly #reader: FrameReader;
  readonly #decoder = new HpackDecoder();
  readonly #block: HeaderBlock;
  #dataEnds = false;

  constructor(side: "server" | "client", stream: Stream, options: Http2Options) {
    super(side, stream, options);
    this.heads = new Http2HeadReader(options.limits);
    this.#reader = new FrameReader(this);
    this.#block = new HeaderBlock(options.limits.headBytes);
  }

  /** An incomplete frame of another kind delays every head, so that it counts as an open head. */
  get openHead(): number {
    return -this.#block.streamId || this.#reader.openFrame;
  }

  /** The kind of block that HEADERS on that stream, or on a new one, must be. */
  protected abstract partOf(stream: S | undefined): HeadBlockKind;
  /** `heads` has the head of a request or response, not trailers. */
  protected abstract onHead(id: number, stream: S | undefined, ends: boolean): void;
  /** A client that opens no more streams may send GOAWAY; its open streams continue. */
  protected onGoaway(_lastId: number, _code: number): void {}
  protected onPingAck(): void {}
  protected onSettings(): void {}
  /** Whether no stream of that number has been opened yet. */
  protected abstract isIdle(id: number): boolean;

  onData(chunk: Uint8Array): void {
    if (this.over) return;
    this.nowMs = this.options.clock.monotonic();
    this.floods.beginRead(this.nowMs);
    this.#reader.read(chunk);
  }

  onFrame(
    type: number,
    flags: number,
    id: number,
    bytes: Uint8Array,
    start: number,
    end: number,
  ): void {
    const block = this.#block;
    if (this.output.isUnread) return this.flood(UNREAD);
    if (!this.peer.received && (type !== FrameType.settings || (flags & Flag.ack) !== 0)) {
      return this.protocolError("no settings at the beginning");
    }
    if (block.streamId !== 0 && (type !== FrameType.continuation || id !== block.streamId)) {
      return this.protocolError("a header block broken off");
    }
    switch (type) {
      case FrameType.headers:
        return this.#headers(flags, id, bytes, start, end);
      case FrameType.windowUpdate:
        return this.#windowUpdate(id, bytes, start, end);
      case FrameType.rstStream:
        return this.#rstStream(id, bytes, start, end);
      case FrameType.settings:
        return this.#settings(flags, id, bytes, start, end);
      case FrameType.ping:
        return this.#ping(flags, id, bytes, start, end);
      case FrameType.continuation:
        return this.#continuation(flags, bytes, start, end);
      case FrameType.priority:
        return this.#priority(id, bytes, start, end);
      case FrameType.goaway:
        if (id !== 0) return this.protocolError("GOAWAY on a stream");
        if (end - start < 8) return this.sizeError();
        if (this.count(this.floods.reply())) return;
        return this.onGoaway(read31(bytes, start), read32(bytes, start + 4));
      case FrameType.pushPromise:
        return this.protocolError("PUSH_PROMISE");
    }
    // Unknown frames are ignored (RFC 9113 4.1), up to the limit for frames that make no progress.
    this.count(this.floods.reply());
  }

  onBadFrame(fault: "size" | "padding"): void {
    if (fault === "size") this.sizeError();
    else this.protocolError("padding longer than its frame");
  }

  onDataStart(flags: number, id: number, bodyBytes: number, padBytes: number): void {
    const size = bodyBytes + padBytes;
    const ends = (flags & Flag.endStream) !== 0;
    this.dataTo = undefined;
    if (this.output.isUnread) return this.flood(UNREAD);
    if (!this.peer.received) return this.protocolError("no settings at the beginning");
    if (this.#block.streamId !== 0) return this.protocolError("a header block broken off");
    if (id === 0 || this.isIdle(id)) return this.protocolError("DATA on no stream");
    this.receiveWindow.left -= size;
    if (this.receiveWindow.left < 0) {
      return this.fail(Http2ErrorCode.flowControl, "more DATA than the connection's window");
    }
    if (bodyBytes > 0 || ends) this.floods.progress();
    else if (this.count(this.floods.empty())) return;
    if (padBytes > 0) this.giveBack(padBytes);
    const stream = this.streams.get(id);
    if (!stream) return this.#dataAfterEnd(id, size);
    if (stream.receiveEnded) {
      return this.streamError(stream, Http2ErrorCode.streamClosed, "DATA after the end");
    }
    if (!stream.hasHead) return this.#broken(stream, "DATA without a head");
    stream.receiveWindow -= size;
    if (stream.receiveWindow < 0) {
      const { flowControl } = Http2ErrorCode;
      return this.streamError(stream, flowControl, "more DATA than the stream's window");
    }
    if (stream.expected >= 0) {
      stream.expected -= bodyBytes;
      if (stream.expected < 0 || (ends && stream.expected > 0)) {
        return this.#broken(stream, "a body of another length");
      }
    }
    this.dataTo = stream;
    this.#dataEnds = ends;
    if (padBytes > 0) stream.giveBack(padBytes);
  }

  onDataPiece(chunk: Uint8Array, last: boolean, followsHeader: boolean): void {
    const stream = this.dataTo;
    // Unwanted bytes are given back to the connection's window as well.
    if (!stream) return this.giveBack(chunk.length);
    if (followsHeader) passing.chunk = chunk;
    if (chunk.length > 0) stream.received(chunk);
    passing.chunk = undefined;
    // The callback may have reset the stream.
    if (last && this.#dataEnds && this.dataTo === stream) stream.receivedEnd(undefined);
  }

  #headers(flags: number, id: number, bytes: Uint8Array, start: number, end: number): void {
    if (id === 0) return this.protocolError("HEADERS on no stream");
    let from = start;
    let to = end;
    if ((flags & Flag.padded) !== 0) {
      if (from === end) return this.sizeError();
      to -= bytes[from++] as number;
    }
    let dependsOn = -1;
    if ((flags & Flag.priority) !== 0) {
      if (to - from < 5) return this.protocolError("broken HEADERS");
      dependsOn = read31(bytes, from);
      from += 5;
    }
    if (from > to) return this.protocolError("padding longer than its frame");
    const ends = (flags & Flag.endStream) !== 0;
    if ((flags & Flag.endHeaders) === 0) {
      if (from === to && !ends && this.count(this.floods.empty())) return;
      this.#block.begin(id, ends, bytes.subarray(from, to));
    } else this.#wholeBlock(id, ends, bytes, from, to);
    if (dependsOn === id && !this.over) this.#selfDependency(id);
  }

  #continuation(flags: number, bytes: Uint8Array, start: number, end: number): void {
    const block = this.#block;
    if (block.streamId === 0) return this.protocolError("CONTINUATION of nothing");
    const last = (flags & Flag.endHeaders) !== 0;
    if (start === end && !last && this.count(this.floods.empty())) return;
    if (!block.add(bytes.subarray(start, end))) return this.flood("a header block without end");
    if (!last) return;
    const { streamId, ends, bytes: whole, length } = block;
    block.clear();
    this.#wholeBlock(streamId, ends, whole, 0, length);
  }

  #wholeBlock(id: number, ends: boolean, bytes: Uint8Array, start: number, end: number): void {
    this.floods.progress();
    const stream = this.streams.get(id);
    const part = this.partOf(stream);
    this.heads.begin(part);
    // The header table is shared by all messages, so that the block of a malformed one is decoded, too.
    const broken = this.#decoder.decode(bytes, start, end, this.heads);
    if (broken !== "") return this.fail(Http2ErrorCode.compression, broken);
    if (part === "trailers" && stream) this.#trailers(stream, ends);
    else this.onHead(id, stream, ends);
  }

  #trailers(stream: S, ends: boolean): void {
    if (stream.receiveEnded) {
      return this.streamError(stream, Http2ErrorCode.streamClosed, "HEADERS after the end");
    }
    const { fault, tooLarge } = this.heads;
    if (!ends) return this.#broken(stream, "trailers without an end");
    if (fault !== "") return this.#broken(stream, fault);
    if (tooLarge) return this.streamError(stream, Http2ErrorCode.enhanceYourCalm, "large trailers");
    if (stream.expected > 0) return this.#broken(stream, "a body of another length");
    stream.receivedEnd(this.heads.trailers());
  }

  #windowUpdate(id: number, bytes: Uint8Array, start: number, end: number): void {
    if (end - start !== 4) return this.sizeError();
    const size = read31(bytes, start);
    if (this.count(this.floods.windowUpdate(this.streams.size))) return;
    if (id === 0) {
      if (size === 0) return this.protocolError("a window update of nothing");
      this.sendWindow += size;
      if (this.sendWindow > MAX_WINDOW_BYTES) {
        return this.fail(Http2ErrorCode.flowControl, "a window above the limit");
      }
      return this.pump();
    }
    if (this.isIdle(id)) return this.protocolError("WINDOW_UPDATE on no stream");
    const stream = this.streams.get(id);
    if (!stream) return;
    if (size === 0) return this.#broken(stream, "a window update of nothing");
    if (stream.sendWindow + size > MAX_WINDOW_BYTES) {
      return this.streamError(stream, Http2ErrorCode.flowControl, "a window above the limit");
    }
    stream.windowChanged(size);
    this.pump();
  }

  #rstStream(id: number, bytes: Uint8Array, start: number, end: number): void {
    if (id === 0 || this.isIdle(id)) return this.protocolError("RST_STREAM on no stream");
    if (end - start !== 4) return this.sizeError();
    const stream = this.streams.get(id);
    // A reset of a request after its whole response does not count as early.
    const startedMs = stream && !stream.sendEnded ? stream.startedMs : -Infinity;
    if (this.countReset(startedMs)) return;
    if (!stream) return void this.count(this.floods.late());
    const code = read32(bytes, start);
    this.forget(stream, "reset by peer");
    stream.broke(reasonOf(code), `reset by the peer with code ${code}`);
  }

  #settings(flags: number, id: number, bytes: Uint8Array, start: number, end: number): void {
    if (id !== 0) return this.protocolError("SETTINGS on a stream");
    if ((flags & Flag.ack) !== 0) {
      if (start !== end) return this.sizeError();
      if (!this.settingsDeadline) return void this.count(this.floods.reply());
      this.settingsDeadline.cancel();
      this.settingsDeadline = undefined;
      const more = this.limits.streamWindowBytes - this.streamReceiveWindow;
      this.streamReceiveWindow += more;
      for (const stream of this.streams.all()) stream.receiveWindow += more;
      return;
    }
    if (this.count(this.floods.reply())) return;
    const before = this.peer.windowBytes;
    const fault = this.peer.take(bytes, start, end, this.side === "client");
    if (fault) return this.fail(fault.code, fault.detail);
    this.encoder.limitTable(this.peer.tableBytes);
    this.output.frame(FrameType.settings, Flag.ack, 0, 0);
    const more = this.peer.windowBytes - before;
    if (more !== 0) {
      for (const stream of this.streams.all()) {
        if (stream.sendWindow + more > MAX_WINDOW_BYTES) {
          return this.fail(Http2ErrorCode.flowControl, "a window above the limit");
        }
        stream.windowChanged(more);
      }
      this.pump();
    }
    this.onSettings();
  }

  #ping(flags: number, id: number, bytes: Uint8Array, start: number, end: number): void {
    if (id !== 0) return this.protocolError("PING on a stream");
    if (end - start !== 8) return this.sizeError();
    if (this.count(this.floods.reply())) return;
    if ((flags & Flag.ack) !== 0) return this.onPingAck();
    this.output.frame(FrameType.ping, Flag.ack, 0, 8);
    this.output.put(bytes.subarray(start, end));
  }

  #priority(id: number, bytes: Uint8Array, start: number, end: number): void {
    if (id === 0) return this.protocolError("PRIORITY on no stream");
    if (this.count(this.floods.priority(this.streams.size))) return;
    if (end - start !== 5) {
      const stream = this.streams.get(id);
      if (!stream) {
        return this.isIdle(id) ? this.sizeError() : this.resetUnknown(id, Http2ErrorCode.frameSize);
      }
      return this.streamError(stream, Http2ErrorCode.frameSize, "broken PRIORITY");
    }
    if (read31(bytes, start) === id) this.#selfDependency(id);
  }

  /** Priorities are ignored; a stream that depends on itself is an error (RFC 7540 5.3.1). */
  #selfDependency(id: number): void {
    const stream = this.streams.get(id);
    if (stream) this.#broken(stream, "a stream that depends on itself");
    else this.protocolError("a stream that depends on itself");
  }

  #dataAfterEnd(id: number, size: number): void {
    switch (this.closed.find(id)) {
      case "reset by us":
        return void this.count(this.floods.lateData(size));
      case "ended":
        return this.fail(Http2ErrorCode.streamClosed, "DATA after the end");
      default:
        this.resetUnknown(id, Http2ErrorCode.streamClosed);
    }
  }

  /** Answers a frame on an unknown stream. */
  protected resetUnknown(id: number, code: Http2ErrorCode): void {
    const startedMs = this.side === "server" ? this.nowMs : -Infinity;
    if (this.count(this.floods.reset(startedMs))) return;
    this.output.frame32(FrameType.rstStream, id, code);
    this.passOver(id);
  }

  /** Ignores all later frames of that stream. */
  protected passOver(id: number): void {
    this.closed.add(id, "reset by us");
    this.allowLate(this.streamReceiveWindow);
  }

  #broken(stream: S, detail: string): void {
    this.streamError(stream, Http2ErrorCode.protocol, detail);
  }

  /** The peer broke a rule that concerns one stream. */
  protected streamError(stream: S, code: Http2ErrorCode, detail: string): void {
    // Resets that the peer provokes count like its own (CVE-2025-8671).
    if (this.countReset(stream.startedMs)) return;
    this.output.frame32(FrameType.rstStream, stream.id, code);
    this.forget(stream, "reset by us");
    stream.broke(code === Http2ErrorCode.enhanceYourCalm ? "overflow" : "protocol", detail);
  }
}

const UNREAD = "frames that nobody reads";

function read31(bytes: Uint8Array, at: number): number {
  return read32(bytes, at) & 0x7fff_ffff;
}

function read32(bytes: Uint8Array, at: number): number {
  return (((bytes[at] as number) << 24) | ((bytes[at + 1] as number) << 16) |
    ((bytes[at + 2] as number) << 8) | (bytes[at + 3] as number)) >>> 0;
}
