/**
 * The stream that a connection becomes by an upgrade or CONNECT. Its first bytes may have been read
 * together with the head. Halves, resets and back-pressure are those of the underlying stream.
 *
 * @module
 */

import { ignoredEvents, type Stream, type StreamEvents } from "../../net/mod.ts";

/** The part of the connection that a tunnel uses. */
export interface TunnelOwner {
  readonly stream: Stream;
  /** Stops and resumes reading. */
  hold(): void;
  release(): void;
}

export class Tunnel implements Stream {
  events: StreamEvents = ignoredEvents;
  readonly #owner: TunnelOwner;

  constructor(owner: TunnelOwner) {
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
