/**
 * A stream of `node:net`, or of `node:tls` on top of one, as a {@link Connection}. Two things must not
 * be left to a TLS socket of Deno 2.9: its `write` gives no backpressure, but its callback does, so
 * bytes are counted until theirs has come; and its `pause` goes on reading into memory and can lose the
 * end, so the transport below it is stopped instead.
 *
 * @module
 */

import type * as net from "node:net";
import { messageOf, unpinned } from "../../base/mod.ts";
import { type Connection, ignoredEvents, type StreamEvents } from "../port.ts";
import { localOf } from "../socket_address.ts";
import { alertWords } from "../tls_words.ts";
import { drop, flush, hasJoined, join, type JoinedWrites, type JoiningStream } from "../turn.ts";

/** Unsent bytes at which `write` asks its caller to stop. */
const HIGH_WATER_BYTES = 256 * 1024;
const KEEP_ALIVE_MS = 15_000;

/** The handle below a socket; not public, but where the runtime keeps what it does not say aloud. */
interface Handle {
  readStart?(): unknown;
  readStop?(): unknown;
  /** Of a TLS handle: its transport is over, in whatever way. */
  emitEof?(): void;
}

export interface NodeConnectionOptions {
  /** What {@link Connection.remote} says. */
  readonly remote: string;
  /** The TCP socket, where `socket` is the TLS one above it. */
  readonly raw?: net.Socket | undefined;
}

export class NodeConnection implements Connection, JoiningStream {
  events: StreamEvents = ignoredEvents;
  readonly remote: string;
  readonly #socket: net.Socket;
  readonly #raw: net.Socket;
  #local: string | undefined;
  /** Came while paused: at most what one read had brought. */
  readonly #held: Uint8Array[] = [];
  joined: JoinedWrites | undefined;
  #unsentBytes = 0;
  #paused = false;
  #asked = false;
  #ended = false;
  #peerEnded = false;
  #toldEnd = false;
  #closed = false;
  #broken = false;
  #alert = "";

  constructor(socket: net.Socket, { remote, raw = socket }: NodeConnectionOptions) {
    this.#socket = socket;
    this.#raw = raw;
    this.remote = remote;
    raw.setKeepAlive(true, KEEP_ALIVE_MS);
    onTransportOver(socket, () => this.#break());
    socket.on("data", (chunk: Uint8Array) => {
      if (this.#paused || this.#held.length > 0) this.#held.push(chunk);
      else this.events.onData(chunk);
    });
    socket.on("end", () => {
      this.#peerEnded = true;
      this.#deliver();
    });
    // What broke may still be open: a TLS socket of Deno goes on after a record it cannot read.
    const broke = (error: Error) => {
      this.#alert ||= alertWords(messageOf(error));
      this.#break();
    };
    socket.on("error", broke);
    socket.on("_tlsError", broke);
    socket.on("close", (hadError: boolean) => {
      this.#closed = true;
      drop(this);
      // A whole message that nobody resumed for is still one: its owner has the close to go by.
      this.events.onClose(hadError || this.#broken, this.#alert);
      this.events = ignoredEvents;
    });
  }

  get local(): string {
    return this.#local ??= localOf(this.#raw);
  }

  write(chunk: Uint8Array): boolean {
    if (this.#closed || this.#ended) return true;
    if (!join(this, chunk)) this.send(chunk, chunk.length);
    return this.#hasRoom();
  }

  give(chunk: Uint8Array): boolean {
    if (this.#closed || this.#ended) return true;
    // What is behind others may wait for long.
    if (!hasJoined(this) || !join(this, chunk)) {
      this.#pass(this.#unsentBytes > 0 ? unpinned(chunk) : chunk);
    }
    return this.#hasRoom();
  }

  send(bytes: Uint8Array, length: number): boolean {
    // Until its callback has come, the runtime reads from the memory that it was given.
    this.#pass(new Uint8Array(bytes.subarray(0, length)));
    return true;
  }

  #pass(chunk: Uint8Array): void {
    const size = chunk.length;
    this.#unsentBytes += size;
    this.#socket.write(chunk, () => this.#sent(size));
  }

  #hasRoom(): boolean {
    if (this.#unsentBytes < HIGH_WATER_BYTES) return true;
    this.#asked = true;
    return false;
  }

  end(): void {
    if (this.#closed || this.#ended) return;
    flush(this);
    this.#ended = true;
    this.#socket.end();
  }

  close(): void {
    if (this.#closed) return;
    flush(this);
    this.#ended = true;
    // The peer may never end its half: once ours is out, nothing more is read.
    if (this.#socket.writableFinished) this.#socket.destroy();
    else this.#socket.end(() => this.#socket.destroy());
  }

  #break(): void {
    this.#broken = true;
    this.reset();
  }

  reset(): void {
    if (this.#closed) return;
    drop(this);
    this.#ended = true;
    this.#raw.resetAndDestroy();
    this.#socket.destroy();
  }

  pause(): void {
    if (this.#closed || this.#paused) return;
    this.#paused = true;
    if (this.#raw === this.#socket) this.#socket.pause();
    else handleOf(this.#raw)?.readStop?.();
  }

  resume(): void {
    if (this.#closed || !this.#paused) return;
    this.#paused = false;
    if (this.#raw === this.#socket) this.#socket.resume();
    else handleOf(this.#raw)?.readStart?.();
    // Not from within the call: its caller may still be writing what came before.
    queueMicrotask(() => this.#deliver());
  }

  /** What was held, in order, and the end after it, unless paused again meanwhile. */
  #deliver(): void {
    while (!this.#paused && this.#held.length > 0) {
      const chunk = this.#held[0] as Uint8Array;
      this.#held.shift();
      this.events.onData(chunk);
    }
    if (this.#paused || !this.#peerEnded || this.#toldEnd || this.#broken) return;
    this.#toldEnd = true;
    this.events.onEnd();
  }

  #sent(size: number): void {
    this.#unsentBytes -= size;
    if (!this.#asked || this.#unsentBytes >= HIGH_WATER_BYTES / 2) return;
    this.#asked = false;
    if (!this.#ended && !this.#closed) this.events.onDrain();
  }
}

/**
 * Deno tells a TLS socket of a reset, or of a FIN that no close_notify came before, as of an orderly
 * end: the bytes may be cut short then. Calls `broke` instead, of the last one who asked for it.
 */
export function onTransportOver(socket: net.Socket, broke: () => void): void {
  const handle = handleOf(socket);
  const orderly = handle?.emitEof;
  if (!handle || !orderly) return;
  const stream = socket as { readonly _readableState?: { readonly ended: boolean } };
  handle.emitEof = () => {
    if (stream._readableState?.ended === false) broke();
    else orderly.call(handle);
  };
}

function handleOf(socket: net.Socket): Handle | undefined {
  return (socket as { readonly _handle?: Handle | null })._handle ?? undefined;
}
