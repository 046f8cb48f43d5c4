/**
 * A stream of HTTP/2: the part that both sides of an exchange share. It follows the slower side: the peer's
 * window opens only for bytes that were delivered and not paused, and bytes that we send are queued here
 * while the peer's windows are full.
 *
 * @module
 */

import type { HttpLimits, Message, MessageEvents, ResetReason } from "../exchange.ts";
import type { Fields } from "../head.ts";
import type { HeldAccount, HeldShare } from "../held_bytes.ts";
import { ChunkQueue } from "./chunk_queue.ts";
import type { Floods } from "./floods.ts";
import { CODES, FrameType, Http2ErrorCode, MAX_FRAME_BYTES } from "./frame.ts";
import type { HeadWriter } from "./head_writer.ts";
import type { Output } from "./output.ts";
import { FAST_MS } from "./shared_window.ts";

/** The connection, as its streams use it. */
export interface StreamConnection {
  readonly limits: HttpLimits;
  readonly output: Output;
  readonly writer: HeadWriter;
  readonly account: HeldAccount;
  /** Monotonic time of the current read, in ms. */
  readonly nowMs: number;
  /** Initial windows of a new stream: for the peer, and for us. */
  readonly streamReceiveWindow: number;
  readonly streamSendWindow: number;
  /** Window that the peer gave to the whole connection. */
  sendWindow: number;
  /** Puts a stream with queued bytes and an open window in line for the next free frame. */
  schedule(stream: Http2Stream): void;
  /** Gives octets back to the connection's window. */
  giveBack(size: number): void;
  /** Sends RST_STREAM and forgets the stream. */
  resetStream(stream: Http2Stream, code: Http2ErrorCode): void;
  /** Both messages are complete. */
  finished(stream: Http2Stream): void;
  readonly floods: Pick<Floods, "sentData">;
}

export abstract class Http2Stream implements Message {
  abstract events: MessageEvents;
  /** 0: its head has not been sent yet. */
  id: number;
  /** Monotonic time when it began, in ms. */
  readonly startedMs: number;
  /** Counts the bytes that wait here; a client's is the share of the exchange that sends the request. */
  readonly held: HeldShare;
  protected readonly host: StreamConnection;
  /** Octets that the peer may still send, and that we may. */
  receiveWindow: number;
  sendWindow: number;
  /** The head of the incoming message is complete. */
  hasHead = true;
  /** END_STREAM was received, and sent. */
  receiveEnded = false;
  sendEnded = false;
  /** The connection has forgotten it. */
  over = false;
  /** In line to send. */
  scheduled = false;
  /** It carries a tunnel; `onSent` is called at the end of the outgoing half. */
  tunnelled = false;
  onSent: (() => void) | undefined;
  /** Octets of the body that are still to come; -1: unknown. */
  expected = -1;
  /** Octets that were delivered, and not given back to the peer's window. */
  #handedOn = 0;
  #windowBytes: number;
  #gaveBackMs: number;
  /** The announced body is longer than the window, which grows with the first byte. */
  #isLong = false;
  #paused = false;
  #delivering = false;
  #waiting: ChunkQueue | undefined;
  /** Waiting bytes that are not given back to the connection's window. */
  #withheld = 0;
  /** The end of the message and its trailers wait, too. */
  #endWaits = false;
  #trailers: Fields | undefined;
  #queue: ChunkQueue | undefined;
  #drainWanted = false;
  #ending = false;
  #endTrailers: Fields | undefined;

  constructor(id: number, host: StreamConnection, held: HeldShare) {
    this.id = id;
    this.host = host;
    this.held = held;
    this.startedMs = this.#gaveBackMs = host.nowMs;
    this.receiveWindow = host.streamReceiveWindow;
    this.#windowBytes = host.limits.streamWindowBytes;
    this.sendWindow = host.streamSendWindow;
  }

  /** Not `owned`: the chunk still belongs to the caller. */
  send(chunk: Uint8Array, owned = true): boolean {
    if (this.over || this.#ending || this.sendEnded) return true;
    let queue = this.#queue;
    let from = 0;
    if (!queue || queue.bytes === 0) {
      from = this.#sendNow(chunk, owned);
      if (from === chunk.length) return true;
    }
    queue = this.#queue ??= new ChunkQueue();
    const rest = from === 0 ? chunk : chunk.subarray(from);
    queue.push(owned ? rest : new Uint8Array(rest));
    this.held.hold(rest.length);
    this.#drainWanted ||= queue.bytes >= this.host.limits.bufferedBytes ||
      this.held.account.isTight;
    this.#schedule();
    return !this.#drainWanted;
  }

  end(trailers?: Fields): void {
    if (this.over || this.#ending || this.sendEnded) return;
    if (trailers && trailers.length > 0) this.#endTrailers = trailers;
    if (this.#queue && this.#queue.bytes > 0) this.#ending = true;
    else this.#sendEnd();
  }

  reset(reason: ResetReason): void {
    this.#drop();
    if (!this.over) this.host.resetStream(this, this.resetCode(reason));
  }

  protected resetCode(reason: ResetReason): Http2ErrorCode {
    if (!this.tunnelled) return CODES[reason];
    return reason === "connection" ? Http2ErrorCode.connect : Http2ErrorCode.none;
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#deliver();
    this.giveBack(0);
  }

  /** The declared length of the body; -1: unknown. */
  announced(length: number): void {
    this.expected = length;
    this.#isLong = length > this.#windowBytes;
  }

  /** Grows the window beyond its initial size from the start, if the account can lend the bytes. */
  protected widen(): void {
    const more = this.#windowBytes * (GROWTH - 1);
    if (this.held.account.isTight || !this.held.account.lend(more)) return;
    this.#windowBytes += more;
    this.receiveWindow += more;
    this.host.output.frame32(FrameType.windowUpdate, this.id, more);
  }

  /** Part of the body came; gives back as much of the connection's window as the account allows. */
  received(chunk: Uint8Array): void {
    const { length } = chunk;
    if (!this.#paused && !this.#delivering && !this.#waits) {
      this.host.giveBack(length);
      this.events.onData(chunk);
      this.giveBack(length);
      return;
    }
    this.#waiting ??= new ChunkQueue();
    this.#waiting.push(chunk);
    this.held.hold(length);
    if (this.#opensLate) this.#withheld += length;
    else this.host.giveBack(length);
  }

  get #waits(): boolean {
    return this.#waiting !== undefined && this.#waiting.bytes > 0;
  }

  /** A server connection that holds much opens windows late; one to an endpoint never waits. */
  get #opensLate(): boolean {
    const { account } = this.held;
    return account === this.host.account && account.isLarge;
  }

  receivedEnd(trailers: Fields | undefined): void {
    this.receiveEnded = true;
    if (this.#paused || this.#delivering || this.#waits) {
      this.#endWaits = true;
      this.#trailers = trailers;
    } else this.events.onEnd(trailers);
    if (this.sendEnded && !this.over) this.host.finished(this);
  }

  /** The peer broke the stream, or the connection ended. */
  broke(reason: ResetReason, detail: string): void {
    this.over = true;
    this.forgetSending();
    if (this.isSettled()) return;
    this.#drop();
    this.events.onReset(reason, detail);
  }

  /** Whether a break is no longer of interest to the owner of the exchange. */
  protected isSettled(): boolean {
    return this.complete;
  }

  /** The peer changed the stream's window by `size`. */
  windowChanged(size: number): void {
    this.sendWindow += size;
    this.#schedule();
  }

  /** Sends one frame of the queue. Returns whether more could be sent. */
  sendQueued(): boolean {
    const queue = this.#queue;
    if (this.over || !queue || queue.bytes === 0) return false;
    const size = Math.min(this.sendWindow, this.host.sendWindow, MAX_FRAME_BYTES);
    if (size <= 0) return false;
    const chunk = queue.take(size);
    this.held.release(chunk.length);
    const last = queue.bytes === 0;
    const ends = last && this.#ending && !this.#endTrailers;
    this.#sendFrame(chunk, ends, true);
    if (last && this.#ending) {
      if (ends) this.sentEnd();
      else this.#sendEnd();
      return false;
    }
    if (this.#drainWanted && queue.bytes <= this.host.limits.bufferedBytes / 2) {
      this.#drainWanted = false;
      this.events.onDrain();
    }
    return queue.bytes > 0 && this.sendWindow > 0 && !this.over;
  }

  forgetSending(): void {
    if (!this.#queue) return;
    this.held.release(this.#queue.bytes);
    this.#queue.clear();
  }

  protected get complete(): boolean {
    return this.receiveEnded && this.sendEnded;
  }

  #sendNow(chunk: Uint8Array, owned: boolean): number {
    const { host } = this;
    let at = 0;
    while (at < chunk.length && !host.output.blocked) {
      const left = chunk.length - at;
      const size = Math.min(left, this.sendWindow, host.sendWindow, MAX_FRAME_BYTES);
      if (size <= 0) break;
      this.#sendFrame(size === chunk.length ? chunk : chunk.subarray(at, at + size), false, owned);
      at += size;
    }
    return at;
  }

  #sendFrame(chunk: Uint8Array, ends: boolean, owned: boolean): void {
    this.sendWindow -= chunk.length;
    this.host.sendWindow -= chunk.length;
    this.host.output.data(this.id, chunk, ends, owned);
    this.host.floods.sentData();
  }

  #sendEnd(): void {
    const { host } = this;
    if (this.#endTrailers) host.writer.trailers(this.id, this.#endTrailers);
    else host.output.endData(this.id);
    this.sentEnd();
  }

  protected sentEnd(): void {
    this.sendEnded = true;
    if (this.receiveEnded && !this.over) this.host.finished(this);
    this.onSent?.();
  }

  #schedule(): void {
    if (this.scheduled || this.sendWindow <= 0) return;
    if (this.#queue && this.#queue.bytes > 0) this.host.schedule(this);
  }

  #deliver(): void {
    if (this.#delivering) return;
    this.#delivering = true;
    const waiting = this.#waiting;
    while (waiting && waiting.bytes > 0 && !this.#paused) {
      const chunk = waiting.take(MAX_FRAME_BYTES);
      this.#release(chunk.length);
      this.#handedOn += chunk.length;
      this.events.onData(chunk);
    }
    this.#delivering = false;
    if (!this.#endWaits || this.#paused || this.#waits) return;
    this.#endWaits = false;
    this.events.onEnd(this.#trailers);
  }

  /** Releases waiting bytes that were taken. */
  #release(size: number): void {
    const withheld = Math.min(size, this.#withheld);
    this.#withheld -= withheld;
    if (withheld > 0) this.host.giveBack(withheld);
    this.held.release(size);
  }

  #drop(): void {
    this.#endWaits = false;
    if (!this.#waiting || !this.#waits) return;
    this.#release(this.#waiting.bytes);
    this.#waiting.clear();
  }

  /** Octets were delivered, or are padding, which uses the window and is not delivered. */
  giveBack(size: number): void {
    this.#handedOn += size;
    if (this.#paused || this.receiveEnded || this.over) return;
    if (this.#handedOn * 2 < this.#windowBytes && !this.#isLong) return;
    this.#resize();
    if (this.#handedOn <= 0) return;
    this.receiveWindow += this.#handedOn;
    this.host.output.frame32(FrameType.windowUpdate, this.id, this.#handedOn);
    this.#handedOn = 0;
  }

  /**
   * A long body, or one that is taken as fast as it comes, gets a larger window, so that the peer need not
   * wait for us. While much is held for its caller, the window shrinks to its initial size.
   */
  #resize(): void {
    const { host: { limits: { streamWindowBytes }, nowMs }, held: { account } } = this;
    const isFast = this.#isLong || nowMs - this.#gaveBackMs < FAST_MS;
    this.#gaveBackMs = nowMs;
    this.#isLong = false;
    if (account.isTight) return this.#shrink();
    const more = this.#windowBytes * (GROWTH - 1);
    if (!isFast || this.#windowBytes >= streamWindowBytes * LARGEST || !account.lend(more)) return;
    this.#windowBytes += more;
    this.#handedOn += more;
  }

  #shrink(): void {
    const less = this.#windowBytes - this.host.limits.streamWindowBytes;
    if (less === 0) return;
    this.held.account.takeBack(less);
    this.#windowBytes -= less;
    this.#handedOn -= less;
  }

  /** The connection has forgotten the stream. */
  gone(): void {
    this.over = true;
    this.#shrink();
  }
}

/** Factor by which the window of a stream grows at once, and factor of its maximum. */
const GROWTH = 4;
const LARGEST = 16;
