/**
 * What a connection becomes by an upgrade or CONNECT: a stream like any other, whose first bytes may have
 * been read with the head before it. Halves, resets and back-pressure are those of the stream below.
 *
 * @module
 */

import { ignoredEvents, type Stream, type StreamEvents } from "../../net/mod.ts";

/** The connection below, as far as a tunnel needs it. */
export interface TunnelOwner {
  readonly stream: Stream;
  /** Stops and resumes what is read. */
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
