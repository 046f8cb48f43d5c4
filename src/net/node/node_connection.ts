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
import {
  type Connection,
  ignoredEvents,
  localOf,
  type PeerCheck,
  type PresentedPeer,
  type StreamEvents,
} from "../port.ts";
import { alertWords } from "../error_words.ts";
import { drop, flush, hasJoined, join, type JoinedWrites, type JoiningStream } from "../turn.ts";
import type * as tls from "node:tls";
import { complaintOf } from "../tls_checks.ts";

/** Unsent bytes at which `write` asks its caller to stop. */
const HIGH_WATER_BYTES = 256 * 1024;
const KEEP_ALIVE_MS = 15_000;

/** The handle below a socket; not public, but the only access to what the socket hides. */
interface Handle {
  readStart?(): unknown;
  readStop?(): unknown;
  /** On a TLS handle: its transport ended, in order or not. */
  emitEof?(): void;
}

export interface NodeConnectionOptions {
  /** See {@link Connection.remote}. */
  readonly remote: string;
  /** The TCP socket below, if `socket` is a TLS one. */
  readonly raw?: net.Socket | undefined;
}

export class NodeConnection implements Connection, JoiningStream {
  events: StreamEvents = ignoredEvents;
  readonly remote: string;
  readonly #socket: net.Socket;
  readonly #raw: net.Socket;
  #local: string | undefined;
  /** Chunks that came while paused: at most those of one read. */
  readonly #held: Uint8Array[] = [];
  joined: JoinedWrites | undefined;
  #unsentBytes = 0;
  #paused = false;
  #drainDue = false;
  #ended = false;
  #peerEnded = false;
  #endReported = false;
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
    // A broken socket may still be open: a TLS socket of Deno goes on after a record it cannot read.
    const broke = (error: Error) => {
      this.#alert ||= alertWords(messageOf(error));
      this.#break();
    };
    socket.on("error", broke);
    socket.on("_tlsError", broke);
    socket.on("close", (hadError: boolean) => {
      this.#closed = true;
      drop(this);
      // Chunks held while paused are dropped: the owner gets the close.
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
    // A chunk that is queued after others may wait for long.
    if (!hasJoined(this) || !join(this, chunk)) {
      this.#pass(this.#unsentBytes > 0 ? unpinned(chunk) : chunk);
    }
    return this.#hasRoom();
  }

  send(bytes: Uint8Array, length: number): boolean {
    // The runtime reads from this memory until the callback of the write.
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
    this.#drainDue = true;
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
    // Not from within the call: its caller may still be writing the chunks before.
    queueMicrotask(() => this.#deliver());
  }

  /** Delivers held chunks in order, and the end after them, unless paused again meanwhile. */
  #deliver(): void {
    while (!this.#paused && this.#held.length > 0) {
      const chunk = this.#held[0] as Uint8Array;
      this.#held.shift();
      this.events.onData(chunk);
    }
    if (this.#paused || !this.#peerEnded || this.#endReported || this.#broken) return;
    this.#endReported = true;
    this.events.onEnd();
  }

  #sent(size: number): void {
    this.#unsentBytes -= size;
    if (!this.#drainDue || this.#unsentBytes >= HIGH_WATER_BYTES / 2) return;
    this.#drainDue = false;
    if (!this.#ended && !this.#closed) this.events.onDrain();
  }
}

/**
 * Deno reports a reset of a TLS socket, or a FIN without close_notify, as an orderly end: the bytes may
 * be truncated then. Calls `broke` instead; a later call for the same socket replaces it.
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

/** Deno offers and takes all suites it knows and ignores the configuration; others are refused here. */
export function suiteRefused(socket: tls.TLSSocket, suites: readonly string[]): string {
  if (suites.length === 0 || socket.getProtocol() === "TLSv1.3") return "";
  const { name } = socket.getCipher();
  return suites.includes(name) ? "" : `the cipher suite ${name} is not among those configured`;
}

interface PeerCertificate {
  readonly raw?: Uint8Array;
  readonly issuerCertificate?: PeerCertificate;
}

/** `verdict`: the library's objection, `""`: none. */
export function peerOf(
  socket: tls.TLSSocket,
  check: PeerCheck,
  verdict: string,
): PresentedPeer {
  const shown = socket.getPeerCertificate(true) as PeerCertificate;
  const reason = complaintOf(check, shown.raw, verdict);
  return {
    accepted: reason === "",
    reason,
    leaf: shown.raw,
    chain() {
      const chain: Uint8Array[] = [];
      let last = shown;
      // A self-signed certificate is its own issuer; 32 is more than any sane chain.
      while (last.issuerCertificate && last.issuerCertificate !== last && chain.length < 32) {
        last = last.issuerCertificate;
        if (last.raw) chain.push(last.raw);
      }
      return chain;
    },
    version: socket.getProtocol() ?? "",
    protocol: socket.alpnProtocol || "",
    serverName: (socket as { readonly servername?: string | false }).servername || "",
    resumed: socket.isSessionReused?.() ?? false,
  };
}
