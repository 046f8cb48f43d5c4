/**
 * Keeps the bytes of a connection while the other side is not connected yet: a request or two, after which
 * the connection is paused. If it breaks meanwhile, its owner ends it.
 *
 * @module
 */

import type { ErrorCode } from "../../base/mod.ts";
import type { Stream, StreamEvents } from "../../net/mod.ts";

/** Most callers send less and wait for a response; pausing each of them would cost more. */
const HOLD_BYTES = 64 * 1024;

export interface EarlyBytesOwner {
  end(code: ErrorCode, reason: string): void;
}

export class EarlyBytes implements StreamEvents {
  readonly #connection: Stream;
  readonly #owner: EarlyBytesOwner;
  #chunks: Uint8Array[] | undefined;
  #heldBytes = 0;
  #paused = false;
  #ended = false;

  constructor(connection: Stream, owner: EarlyBytesOwner) {
    this.#connection = connection;
    this.#owner = owner;
    connection.events = this;
  }

  onData(chunk: Uint8Array): void {
    this.#chunks ??= [];
    this.#chunks.push(chunk);
    this.#heldBytes += chunk.length;
    if (this.#paused || this.#heldBytes < HOLD_BYTES) return;
    this.#paused = true;
    this.#connection.pause();
  }

  onEnd(): void {
    this.#ended = true;
  }

  onDrain(): void {}

  onClose(): void {
    this.#owner.end("downstream_reset", "closed early");
  }

  /** Hands everything to the connection's new events and lets it run. */
  release(): void {
    const { events } = this.#connection;
    if (this.#paused) this.#connection.resume();
    for (const chunk of this.#chunks ?? []) events.onData(chunk);
    if (this.#ended) events.onEnd();
  }
}
