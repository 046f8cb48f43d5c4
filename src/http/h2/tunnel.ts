/** A stream of bytes over one HTTP/2 stream, after CONNECT (RFC 9113 8.5, RFC 8441). @module */

import { ignoredEvents, type Stream, type StreamEvents } from "../../net/mod.ts";
import type { ResetReason, ResponseEvents } from "../exchange.ts";
import type { Http2Stream } from "./http2_stream.ts";

export class Http2Tunnel implements Stream, ResponseEvents {
  events: StreamEvents = ignoredEvents;
  readonly #stream: Http2Stream;
  /** Events begin in a later microtask, when the creator has set its own. */
  #started = false;
  #paused = false;
  #ended = false;
  #peerEnded = false;
  /** Both halves end without waiting for the peer. */
  #leaving = false;
  #closed = false;

  /** Must be made in the callback of the response. */
  constructor(stream: Http2Stream) {
    this.#stream = stream;
    stream.events = this;
    stream.tunnelled = true;
    stream.expected = -1;
    stream.onSent = () => this.#sent();
    const ended = stream.receiveEnded;
    stream.pause();
    queueMicrotask(() => {
      this.#started = true;
      if (!this.#paused) stream.resume();
      if (ended) this.onEnd();
    });
  }

  write(chunk: Uint8Array): boolean {
    return this.#stream.send(chunk, false);
  }

  give(chunk: Uint8Array): boolean {
    return this.#stream.send(chunk);
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#stream.end();
  }

  close(): void {
    if (this.#leaving) return;
    this.#leaving = true;
    // Incoming bytes are dropped, but have to be read so that outgoing ones are not stopped.
    this.resume();
    this.end();
    if (this.#stream.sendEnded) this.#sent();
  }

  reset(): void {
    this.#stream.reset("connection");
    this.#close(false);
  }

  pause(): void {
    if (this.#leaving) return;
    this.#paused = true;
    this.#stream.pause();
  }

  resume(): void {
    this.#paused = false;
    if (this.#started) this.#stream.resume();
  }

  onInformational(): void {}
  onResponse(): void {}

  onData(chunk: Uint8Array): void {
    if (!this.#leaving) this.events.onData(chunk);
  }

  onEnd(): void {
    if (this.#peerEnded || this.#closed) return;
    this.#peerEnded = true;
    if (!this.#leaving) this.events.onEnd();
    if (this.#stream.sendEnded) this.#close(false);
  }

  onDrain(): void {
    if (!this.#ended) this.events.onDrain();
  }

  onReset(reason: ResetReason): void {
    // A cancellation after an orderly end is reported as an orderly close.
    this.#close(!(reason === "cancelled" && this.#peerEnded));
  }

  /** Our half is sent completely. */
  #sent(): void {
    if (!this.#leaving && !this.#peerEnded) return;
    if (!this.#peerEnded) this.#stream.reset("cancelled");
    this.#close(false);
  }

  /** Reported in a later microtask: a stream reports nothing within the call that caused it. */
  #close(reset: boolean): void {
    if (this.#closed) return;
    this.#closed = true;
    queueMicrotask(() => {
      const { events } = this;
      this.events = ignoredEvents;
      events.onClose(reset, "");
    });
  }
}
