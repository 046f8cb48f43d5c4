/**
 * An HTTP/1.1 connection, the part that both sides share. The bytes that it reads are handled in order, within
 * the callback that read them. While the connection holds, the rest of the read waits and nothing more is
 * read. It is handled later, never within the call that releases it.
 *
 * @module
 */

import { ignoredEvents, type Stream, type StreamEvents } from "../../net/mod.ts";
import type { HttpEnd, HttpLimits, MessageEvents, ResetReason } from "../exchange.ts";
import { type HeldAccount, heldByThread } from "../held_bytes.ts";
import { BodyReader, Http1HeadReader } from "./read_message.ts";
import { BodyWriter } from "./write_message.ts";

type Count = Pick<HeldAccount, "hold" | "release">;

/** The connection, as its exchange uses it. */
export interface Http1Owner
  extends Pick<Http1Connection, "stream" | "writer" | "took" | "hold" | "release" | "tunnel"> {
  /** Ends the exchange and the connection. `detail` is for people. */
  broken(detail: string): void;
}

interface OpenExchange {
  readonly events: MessageEvents;
  /** The connection ended the exchange: its methods have no effect any more. */
  leave(): unknown;
}

export abstract class Http1Connection<X extends OpenExchange = OpenExchange>
  implements StreamEvents {
  readonly stream: Stream;
  protected readonly account: HeldAccount;
  readonly writer: BodyWriter;
  protected readonly limits: HttpLimits;
  protected readonly heads: Http1HeadReader;
  protected readonly body: BodyReader;
  protected exchange: X | undefined;
  protected abstract phase: string;
  protected draining = false;
  /** The first reason for which the connection ended. */
  protected end: HttpEnd | undefined;
  protected tunnelled: Tunnel | undefined;
  /** Bytes of the current chunk that are not handled yet. */
  protected inHand = 0;
  protected peerEnded = false;
  /** The peer's end was handled, after everything that came before it. */
  #endHandled = false;
  /** The last written bytes wait for the peer to read. */
  blocked = false;
  #held: Uint8Array | undefined;
  /** Written bytes that wait for the peer, and their account. */
  #unsent = 0;
  #unsentAt: Count | undefined;
  #holding = false;
  #reading = false;
  /** A message is complete, and its exchange has not been notified yet. */
  #endPending = false;
  readonly #later = () => this.#goOn();

  constructor(stream: Stream, limits: HttpLimits, account: HeldAccount = heldByThread.open("")) {
    this.stream = stream;
    this.account = account;
    this.limits = limits;
    this.writer = new BodyWriter(stream);
    this.heads = new Http1HeadReader(limits.headBytes);
    this.body = new BodyReader(limits);
    stream.events = this;
  }

  /** Handles the bytes at `at`. Returns their end, which is after `at` unless the reader holds. */
  protected abstract step(chunk: Uint8Array, at: number): number;
  /** Notifies the exchange that the incoming message is complete. */
  protected abstract reportEnd(): void;
  /** The peer ended its half, and everything before that was handled. */
  protected abstract peerIsDone(): void;
  /** More bytes came while reading was paused than an engine can have read ahead. */
  protected abstract overflow(): void;
  abstract onDrain(): void;
  abstract onClose(reset: boolean, alert: string): void;

  get active(): number {
    return this.exchange || this.tunnelled ? 1 : 0;
  }

  get isOver(): boolean {
    return this.phase === "over";
  }

  /** The stream is closed: ends the tunnel or the exchange. */
  protected closed(reset: boolean, alert: string): HttpEnd {
    const detail = alert || (reset ? "the connection was reset" : "");
    this.phase = "over";
    this.sent();
    this.#hold(undefined);
    if (this.tunnelled) {
      const { events } = this.tunnelled;
      this.tunnelled = undefined;
      events.onClose(reset || this.end?.kind === "reset", alert);
    }
    this.end ??= { by: reset ? "network" : "peer", kind: reset ? "reset" : "closed", detail };
    this.reportReset("connection", detail || "the connection was closed");
    return this.end;
  }

  protected reportReset(reason: ResetReason, detail: string): void {
    const { exchange } = this;
    this.exchange = undefined;
    exchange?.leave();
    exchange?.events.onReset(reason, detail);
  }

  /** Whether bytes came that have not been handled. */
  protected get hasMore(): boolean {
    return this.inHand > 0 || this.#held !== undefined;
  }

  onData(chunk: Uint8Array): void {
    if (this.isOver) return;
    if (this.#held) this.#keep(chunk, 0);
    else this.#read(chunk);
  }

  onEnd(): void {
    this.peerEnded = true;
    if (!this.#held && !this.#endPending) this.#handleEnd();
  }

  /** Notes and returns the result of a write; `count`: the account of the bytes until a drain. */
  took(all: boolean, size: number, count: Count): boolean {
    if (all) return true;
    this.blocked = true;
    this.#unsentAt ??= count;
    this.#unsent += size;
    this.#unsentAt.hold(size);
    return false;
  }

  /** Releases written bytes: the stream has taken them. */
  protected sent(): void {
    this.blocked = false;
    this.#unsentAt?.release(this.#unsent);
    this.#unsentAt = undefined;
    this.#unsent = 0;
  }

  #hold(chunk: Uint8Array | undefined): void {
    const more = (chunk?.length ?? 0) - (this.#held?.length ?? 0);
    this.#held = chunk;
    if (more > 0) this.account.hold(more);
    else this.account.release(-more);
  }

  hold(): void {
    if (this.#holding) return;
    this.#holding = true;
    this.stream.pause();
  }

  release(): void {
    if (!this.#holding) return;
    this.#holding = false;
    const waits = this.#held || this.#endPending || this.peerEnded && !this.#endHandled;
    if (this.#reading || !waits) this.stream.resume();
    else queueMicrotask(this.#later);
  }

  tunnel(): Stream {
    this.exchange = undefined;
    const tunnel = this.tunnelled = new Tunnel(this);
    // An end that came before the tunnel is reported by the tunnel.
    this.hold();
    this.#endHandled = false;
    this.release();
    return tunnel;
  }

  protected endMessage(): void {
    if (this.#holding) this.#endPending = true;
    else this.reportEnd();
  }

  /** Drops everything that waits to be handled. */
  protected forget(): void {
    this.#hold(undefined);
    this.#endPending = false;
  }

  #goOn(): void {
    if (this.#holding || this.#reading || this.isOver) return;
    if (this.#endPending) {
      this.#endPending = false;
      this.reportEnd();
      if (this.#holding) return;
    }
    const held = this.#held;
    this.#hold(undefined);
    if (held) this.#read(held);
    if (this.#holding) return;
    if (this.peerEnded) this.#handleEnd();
    this.stream.resume();
  }

  #read(chunk: Uint8Array): void {
    this.#reading = true;
    let at = 0;
    while (at < chunk.length && !this.#holding) {
      this.inHand = chunk.length - at;
      if (!this.tunnelled) {
        at = this.isOver ? chunk.length : this.step(chunk, at);
        continue;
      }
      const rest = at === 0 ? chunk : chunk.subarray(at);
      at = chunk.length;
      this.tunnelled.events.onData(rest);
    }
    this.inHand = 0;
    this.#reading = false;
    if (at < chunk.length && !this.isOver) this.#keep(chunk, at);
  }

  #keep(chunk: Uint8Array, at: number): void {
    const rest = at === 0 ? chunk : chunk.subarray(at);
    const held = this.#held;
    if (!held) return this.#hold(rest);
    const length = held.length + rest.length;
    if (length > this.limits.bufferedBytes) return this.overflow();
    const both = new Uint8Array(length);
    both.set(held);
    both.set(rest, held.length);
    this.#hold(both);
  }

  #handleEnd(): void {
    if (this.#endHandled) return;
    this.#endHandled = true;
    if (this.tunnelled) this.tunnelled.events.onEnd();
    else this.peerIsDone();
  }
}

/**
 * The stream that a connection becomes by an upgrade or CONNECT. Its first bytes may have been read together
 * with the head. Halves, resets and back-pressure are those of the underlying stream.
 */
class Tunnel implements Stream {
  events: StreamEvents = ignoredEvents;
  readonly #owner: Pick<Http1Connection, "stream" | "hold" | "release">;

  constructor(owner: Pick<Http1Connection, "stream" | "hold" | "release">) {
    this.#owner = owner;
  }

  write(chunk: Uint8Array): boolean {
    return this.#owner.stream.write(chunk);
  }

  give(chunk: Uint8Array): boolean {
    return this.#owner.stream.give(chunk);
  }

  end(): void {
    this.#owner.stream.end();
  }

  close(): void {
    this.#owner.stream.close();
  }

  reset(): void {
    this.#owner.stream.reset();
  }

  pause(): void {
    this.#owner.hold();
  }

  resume(): void {
    this.#owner.release();
  }
}
