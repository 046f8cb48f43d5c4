/** An open stream on one of Bun's sockets, plain or TLS. @module */

import { messageOf, unpinned } from "../../base/mod.ts";
import type { BunSocket, SocketOwner } from "./bun_sockets.ts";
import { type Connection, ignoredEvents, localOf, remoteOf, type StreamEvents } from "../port.ts";
import { alertWords } from "../error_words.ts";
import { drop, flush, hasJoined, join, type JoinedWrites, type JoiningStream } from "../turn.ts";

export class BunConnection implements Connection, SocketOwner, JoiningStream {
  events: StreamEvents = ignoredEvents;
  readonly #socket: BunSocket;
  #remote: string | undefined;
  /** Kept, because reading it costs system calls. */
  #local: string | undefined;
  joined: JoinedWrites | undefined;
  /** Bytes that the kernel did not take, in memory of our own. */
  #unsent: Uint8Array[] | undefined;
  #drainDue = false;
  #ending: "half" | "both" | undefined;
  #peerEnded = false;
  #broken = false;
  #closed = false;
  #alert = "";

  /** Takes over the socket from its owner so far. */
  constructor(socket: BunSocket, remote?: string) {
    this.#socket = socket;
    this.#remote = remote;
    socket.data = this;
  }

  get remote(): string {
    return this.#remote ??= remoteOf(this.#socket);
  }

  get local(): string {
    return this.#local ??= localOf(this.#socket);
  }

  write(chunk: Uint8Array): boolean {
    if (this.#closed || this.#ending) return true;
    if (!this.#unsent && join(this, chunk)) return true;
    return this.#taken(this.send(chunk, chunk.length));
  }

  give(chunk: Uint8Array): boolean {
    if (this.#closed || this.#ending) return true;
    if (hasJoined(this) && join(this, chunk)) return true;
    const sent = this.#sent(chunk, chunk.length);
    if (sent < chunk.length) this.#keep(unpinned(chunk.subarray(sent)));
    return this.#taken(sent === chunk.length);
  }

  send(bytes: Uint8Array, length: number): boolean {
    const sent = this.#sent(bytes, length);
    if (sent < length) this.#keep(new Uint8Array(bytes.subarray(sent, length)));
    return sent === length;
  }

  end(): void {
    if (this.#closed || this.#ending) return;
    flush(this);
    this.#ending = "half";
    if (!this.#unsent) this.#finish();
  }

  close(): void {
    if (this.#closed) return;
    flush(this);
    this.#ending = "both";
    if (!this.#unsent) this.#finish();
  }

  reset(): void {
    if (this.#closed) return;
    drop(this);
    this.#unsent = undefined;
    // The close is reported at once, and is not an end by the peer.
    this.#ending = "both";
    this.#socket.terminate();
  }

  pause(): void {
    if (!this.#closed) this.#socket.pause();
  }

  resume(): void {
    if (!this.#closed) this.#socket.resume();
  }

  received(chunk: Uint8Array): void {
    this.events.onData(chunk);
  }

  drained(): void {
    const unsent = this.#unsent;
    if (!unsent) return;
    while (unsent.length > 0) {
      const chunk = unsent[0] as Uint8Array;
      const sent = this.#socket.write(chunk, 0, chunk.length);
      if (sent < chunk.length) {
        if (sent > 0) unsent[0] = chunk.subarray(sent);
        return;
      }
      unsent.shift();
    }
    this.#unsent = undefined;
    if (this.#ending) this.#finish();
    else if (this.#drainDue) {
      this.#drainDue = false;
      this.events.onDrain();
    }
  }

  peerEnded(): void {
    if (this.#peerEnded) return;
    this.#peerEnded = true;
    this.events.onEnd();
  }

  /** A handler threw, or the socket broke: in both cases no later byte can be trusted. */
  broke(error: Error): void {
    this.#broken = true;
    this.#alert = alertWords(messageOf(error));
    this.reset();
  }

  closed(error: Error | undefined): void {
    if (this.#closed) return;
    this.#closed = true;
    const unsent = this.#unsent !== undefined || hasJoined(this);
    const broken = this.#broken || error !== undefined || unsent;
    drop(this);
    this.#unsent = undefined;
    // If our own half ended first, Bun reports the peer's end only by the close.
    if (!broken && this.#ending === "half") this.peerEnded();
    this.events.onClose(broken, this.#alert);
    this.events = ignoredEvents;
  }

  /** Number of bytes that need not be kept. */
  #sent(bytes: Uint8Array, length: number): number {
    if (this.#unsent) return 0;
    const sent = this.#socket.write(bytes, 0, length);
    // The socket is closed already: its close event follows, and nothing is kept for it.
    return sent < 0 || this.#closed ? length : sent;
  }

  #keep(chunk: Uint8Array): void {
    this.#unsent ??= [];
    this.#unsent.push(chunk);
  }

  #taken(all: boolean): boolean {
    this.#drainDue ||= !all;
    return all;
  }

  #finish(): void {
    if (this.#ending === "both" || this.#peerEnded) this.#socket.end();
    else this.#socket.shutdown();
  }
}

/** Idle time before the kernel probes a connection. */
const KEEP_ALIVE_MS = 15_000;

/** Addresses on this host, with or without a port. */
const ON_THIS_HOST = /^(?:127\.|::1$|\[::1\]|localhost$|unix$)/;

/** Has the kernel probe a peer that may vanish without a FIN; one on this host cannot. */
export function keepAlive(socket: BunSocket, host: string): void {
  if (ON_THIS_HOST.test(host)) return;
  socket.setKeepAlive(true, KEEP_ALIVE_MS);
}
