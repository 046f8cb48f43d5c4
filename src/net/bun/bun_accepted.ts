/**
 * Accepted sockets until they are a stream. Bytes before the handshake, as the ClientHello for a chooser,
 * are read with system calls of our own while they still wait in the kernel.
 *
 * @module
 */

import { messageOf } from "../../base/mod.ts";
import { GONE, TlsAcceptor } from "../tls_acceptor.ts";
import { tlsWords } from "../error_words.ts";
import { discard, peek, type Unwatch, watchArrivals } from "../linux/arrival_watch.ts";
import { localOf, type PeerCheck, remoteOf, type ServerTls } from "../port.ts";
import { BunConnection } from "./bun_connection.ts";
import { BunPeer } from "./bun_peer.ts";
import {
  type BunSocket,
  type BunTlsError,
  type BunTlsOptions,
  type SocketOwner,
  STREAM_HANDLER,
} from "./bun_sockets.ts";

/** Settings of either side. */
export interface BunTls {
  readonly options: BunTlsOptions;
  readonly peerCheck: PeerCheck;
}

const CANNOT_WAIT =
  "Cannot read the client's first message: this system does not let us wait for it";

export class BunAccepted extends TlsAcceptor implements SocketOwner {
  /** The plain socket; once the handshake began the TLS one, which owns the connection then. */
  #socket: BunSocket;
  readonly #onAwaited: () => void;
  /** The plain socket is ours: for first bytes, then for a chooser's decision. */
  #waiting = false;
  #unwatch: Unwatch | undefined;
  #peerCheck: PeerCheck = "checked";

  /** `onAwaited`: called before the first bytes of this client are awaited. */
  constructor(raw: BunSocket, onAwaited: () => void) {
    super(remoteOf(raw));
    this.#socket = raw;
    this.#onAwaited = onAwaited;
  }

  get local(): string {
    return localOf(this.#socket);
  }

  /** Unless it was secured at once its bytes stay in the kernel: Bun would drop them. */
  override handedOut(): void {
    if (!this.used) this.#socket.pause();
  }

  handshaken(socket: BunSocket, success: boolean, error: BunTlsError | null): void {
    if (!success) return this.failed(tlsWords(messageOf(error)), error?.code === "ECONNRESET");
    const { handler } = this;
    if (!handler) return;
    this.handler = undefined;
    const connection = new BunConnection(socket, this.remote);
    handler({ kind: "secured", connection, peer: new BunPeer(socket, this.#peerCheck, error) });
  }

  received(): void {}

  drained(): void {}

  peerEnded(): void {
    this.failed(GONE, true);
  }

  closed(error: Error | undefined): void {
    this.failed(error ? messageOf(error) : GONE, true);
  }

  broke(error: Error): void {
    this.failed(tlsWords(messageOf(error)), false);
  }

  /** The plain socket is closed; once the handshake began, the TLS socket reports that. */
  rawClosed(error: Error | null | undefined): void {
    if (this.#waiting) this.closed(error ?? undefined);
  }

  protected shakeHands(tls: ServerTls): void {
    const { options, peerCheck } = tls as ServerTls & BunTls;
    this.#peerCheck = peerCheck;
    try {
      const [, secured] = this.#socket.upgradeTLS({
        isServer: true,
        tls: options,
        data: this,
        socket: STREAM_HANDLER,
      });
      this.#socket = secured;
    } catch (error) {
      this.failed(messageOf(error), false);
    }
  }

  protected startReading(): void {
    this.#onAwaited();
    this.#socket.data = this;
    this.#waiting = true;
    this.#read();
  }

  #read(): void {
    const bytes = peek(this.#socket.fd);
    if (!bytes) this.watch();
    else if (bytes.length === 0) this.left();
    else this.arrived(bytes);
  }

  protected take(size: number): boolean {
    return discard(this.#socket.fd, size);
  }

  protected watch(): void {
    if (this.#unwatch || !this.handler) return;
    this.#socket.pause();
    this.#unwatch = watchArrivals(this.#socket.fd, (peerEnded) => {
      if (peerEnded) this.left();
      else if (this.isAwaiting) this.#read();
    });
    if (!this.#unwatch) this.cannotWait(CANNOT_WAIT);
  }

  protected stopReading(): void {
    this.#waiting = false;
    this.#unwatch?.(this.#socket.fd);
    this.#unwatch = undefined;
  }

  protected handOver(): void {
    this.#socket.data = undefined;
  }

  protected left(): void {
    this.failed(GONE, true);
    this.terminate();
  }

  protected terminate(): void {
    this.#socket.terminate();
  }

  protected endWith(bytes: Uint8Array): void {
    // A socket closed with unread bytes breaks its connection before these arrive.
    discard(this.#socket.fd);
    this.#socket.write(bytes, 0, bytes.length);
    this.#socket.end();
  }
}
