/**
 * Sockets of a server that hangs (SIGSTOP): connections are accepted, as the kernel does it, and nothing is
 * read, answered or ended until it goes on. Only TLS handshakes still succeed: the layer below makes them.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import type { Connection, Listener, ListenOptions, StreamEvents } from "../../../../src/net/mod.ts";
import type { Acceptor } from "../../../../src/dev/http/listener.ts";

/** Listens like the acceptor below; all accepted connections stop and go on together. */
export class FrozenAcceptor implements Acceptor {
  readonly #below: Acceptor;
  readonly #open = new Set<FrozenConnection>();
  #frozen = false;

  constructor(below: Acceptor) {
    this.#below = below;
  }

  listen(
    options: ListenOptions,
    onConnection: (connection: Connection, protocol?: string) => void,
  ): Promise<Listener> {
    return this.#below.listen(options, (connection, protocol) => {
      const held = new FrozenConnection(connection, (over) => this.#open.delete(over));
      this.#open.add(held);
      if (this.#frozen) held.freeze();
      onConnection(held, protocol);
    });
  }

  freeze(): void {
    this.#frozen = true;
    for (const connection of this.#open) connection.freeze();
  }

  thaw(): void {
    this.#frozen = false;
    for (const connection of this.#open) connection.thaw();
  }
}

class FrozenConnection implements Connection {
  readonly #below: Connection;
  #frozen = false;
  #paused = false;
  /** Calls of the owner meanwhile, in order. */
  #held: (() => void)[] = [];

  constructor(below: Connection, onOver: (over: FrozenConnection) => void) {
    this.#below = below;
    this.#onOver = onOver;
  }

  readonly #onOver: (over: FrozenConnection) => void;

  get remote(): string {
    return this.#below.remote;
  }

  get local(): string {
    return this.#below.local;
  }

  get events(): StreamEvents {
    return this.#below.events;
  }

  set events(events: StreamEvents) {
    this.#below.events = {
      onData: (chunk) => events.onData(chunk),
      onEnd: () => this.#orLater(() => events.onEnd()),
      onDrain: () => events.onDrain(),
      onClose: (reset, alert) => {
        this.#onOver(this);
        events.onClose(reset, alert);
      },
    };
  }

  freeze(): void {
    this.#frozen = true;
    this.#below.pause();
  }

  thaw(): void {
    this.#frozen = false;
    const held = this.#held;
    this.#held = [];
    for (const act of held) act();
    if (!this.#paused) this.#below.resume();
  }

  write(chunk: Uint8Array): boolean {
    if (!this.#frozen) return this.#below.write(chunk);
    const copy = new Uint8Array(Buffer.from(chunk));
    this.#held.push(() => this.#below.write(copy));
    return true;
  }

  give(chunk: Uint8Array): boolean {
    return this.write(chunk);
  }

  end(): void {
    this.#orLater(() => this.#below.end());
  }

  close(): void {
    this.#orLater(() => this.#below.close());
  }

  /** Works on a server that hangs, too: it was killed. */
  reset(): void {
    this.#held = [];
    this.#below.reset();
  }

  pause(): void {
    this.#paused = true;
    this.#below.pause();
  }

  resume(): void {
    this.#paused = false;
    if (!this.#frozen) this.#below.resume();
  }

  #orLater(act: () => void): void {
    if (this.#frozen) this.#held.push(act);
    else act();
  }
}
