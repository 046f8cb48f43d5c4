/**
 * Accepted sockets of `node:net` until they are a TLS stream. Bytes before the handshake, as the
 * ClientHello for a chooser, are read here; those not used are put back for the handshake.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import type * as net from "node:net";
import * as tls from "node:tls";
import { messageOf } from "../../base/mod.ts";
import { GONE, TlsAcceptor } from "../tls_acceptor.ts";
import { tlsWords } from "../error_words.ts";
import { localOf, type PeerCheck, remoteOf, type ServerTls } from "../port.ts";
import { NodeConnection, onTransportOver, peerOf, suiteRefused } from "./node_connection.ts";

/** Settings of either side. */
export interface NodeTls {
  readonly options: object;
  readonly suites: readonly string[];
  readonly peerCheck: PeerCheck;
}

/** Bytes held while a choice is awaited; more wait in the kernel. */
const EARLY_LIMIT_BYTES = 64 * 1024;

export class NodeAccepted extends TlsAcceptor {
  readonly #raw: net.Socket;
  /** Bytes from the client that no preface has used. */
  #early: Uint8Array | undefined;
  /** Removes the listeners of the wait for first bytes and a choice. */
  #stop: (() => void) | undefined;

  constructor(raw: net.Socket) {
    super(remoteOf(raw));
    this.#raw = raw;
    // An error before or during the handshake is reported once, by the close that follows.
    raw.on("error", () => {});
  }

  get local(): string {
    return localOf(this.#raw);
  }

  /** Watches for the end of the client, too. */
  protected startReading(): void {
    const raw = this.#raw;
    if (raw.destroyed) return this.failed(GONE, true);
    const left = () => this.left();
    const arrived = (chunk: Uint8Array) => {
      const early = this.#early = this.#early ? Buffer.concat([this.#early, chunk]) : chunk;
      if (this.isAwaiting) this.arrived(early);
      // A client need not send more before the choice, but may.
      else if (early.length > EARLY_LIMIT_BYTES) raw.pause();
    };
    this.#stop = () => {
      raw.off("data", arrived);
      raw.off("end", left);
      raw.off("close", left);
    };
    raw.on("data", arrived);
    raw.on("end", left);
    raw.on("close", left);
    // After an earlier preface: bytes that it left, and a paused socket.
    if (this.#early) this.arrived(this.#early);
    if (this.#stop !== undefined && raw.isPaused()) raw.resume();
  }

  protected stopReading(): void {
    this.#stop?.();
    this.#stop = undefined;
  }

  /** The listeners stay while a choice is awaited. */
  protected watch(): void {}

  protected take(size: number): boolean {
    const early = this.#early;
    this.#early = early && size < early.length ? early.subarray(size) : undefined;
    return true;
  }

  protected handOver(): void {
    this.#raw.pause();
  }

  protected left(): void {
    this.failed(GONE, true);
    this.#raw.destroy();
  }

  protected terminate(): void {
    this.#raw.resetAndDestroy();
  }

  /** Later bytes are not waited for: unread ones would turn the end into a reset. */
  protected endWith(bytes: Uint8Array): void {
    this.#raw.end(bytes, () => this.#raw.destroy());
  }

  /** Not through `tls.Server`, which hides its objection to a certificate. */
  protected shakeHands(serverTls: ServerTls): void {
    const { options, suites, peerCheck } = serverTls as ServerTls & NodeTls;
    const raw = this.#raw;
    if (raw.destroyed) return this.failed(GONE, true);
    if (this.#early) raw.unshift(this.#early);
    this.#early = undefined;
    const socket = new tls.TLSSocket(raw, options);
    socket.on("error", (error: Error) => this.failed(tlsWords(messageOf(error)), false));
    socket.on("close", () => this.failed(GONE, true));
    onTransportOver(socket, () => void raw.destroy());
    socket.on("secure", () => {
      const { handler } = this;
      if (!handler) return void socket.destroy();
      const peer = peerOf(socket, peerCheck, verifyErrorOf(socket));
      const refused = peerCheck === "checked" ? tlsWords(peer.reason) : "";
      const refusal = refused || suiteRefused(socket, suites);
      if (refusal !== "") {
        this.failed(refusal, false);
        return void socket.destroy();
      }
      this.handler = undefined;
      const connection = new NodeConnection(socket, { remote: this.remote, raw });
      handler({ kind: "secured", connection, peer });
    });
  }
}

/** The library's objection to the peer's chain; `""`: none. */
function verifyErrorOf(socket: tls.TLSSocket): string {
  const handle = (socket as { readonly _handle?: { verifyError?(): unknown } | null })._handle;
  // Without a verdict the chain counts as unchecked.
  if (typeof handle?.verifyError !== "function") return "the TLS library gave no verdict";
  const error = handle.verifyError();
  return error ? messageOf(error) : "";
}
