/**
 * Sockets of a server that hangs (SIGSTOP): connections are accepted as the kernel does it, nothing is
 * read, answered or ended until it goes on. Only TLS still shakes hands, which belongs to what is below.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import type { Connection, Listener, ListenOptions, StreamEvents } from "../../net/mod.ts";
import type { Acceptor } from "../http/dev_exchange.ts";

/** Listens like the acceptor below; everything that it accepted stops and goes on together. */
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
  /** What the owner did meanwhile, in order. */
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

  /** Also of a server that hangs: who is killed does not hang any more. */
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
