/**
 * Keeps what a connection says while the other side is not there yet. The connection is paused, so this
 * is at most what was already read; if it breaks meanwhile, its owner is told.
 *
 * @module
 */

import type { Connection, ConnectionEvents } from "../net/mod.ts";

export class Holding implements ConnectionEvents {
  readonly #connection: Connection;
  readonly #onGone: (reset: boolean) => void;
  readonly #chunks: Uint8Array[] = [];
  #ended = false;

  constructor(connection: Connection, onGone: (reset: boolean) => void) {
    this.#connection = connection;
    this.#onGone = onGone;
    connection.events = this;
    connection.pause();
  }

  onData(chunk: Uint8Array): void {
    this.#chunks.push(chunk);
  }

  onEnd(): void {
    this.#ended = true;
  }

  onDrain(): void {}

  onClose(reset: boolean): void {
    this.#onGone(reset);
  }

  /** Hands everything to the connection's new events and lets it run. */
  release(): void {
    const { events } = this.#connection;
    this.#connection.resume();
    for (const chunk of this.#chunks) events.onData(chunk);
    if (this.#ended) events.onEnd();
  }

  /** Bytes held. */
  get size(): number {
    return this.#chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  }
}
