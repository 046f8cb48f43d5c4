/** Dialled sockets until they are a stream. Each calls its handler exactly once. @module */

import { formatAddress, messageOf } from "../../base/mod.ts";
import { BunConnection, keepAlive } from "./bun_connection.ts";
import type { BunSocket, BunTlsError, SocketOwner } from "./bun_sockets.ts";
import { BunPeer, wasCompleted } from "./bun_peer.ts";
import { connectWords, tlsWords } from "../error_words.ts";
import type { DialHandler, DialOptions, PeerCheck, PresentedPeer } from "../port.ts";

const SERVER_GONE = "the server closed the connection";

interface BunDialOptions extends Omit<DialOptions, "tls"> {
  /** Absent: plain. */
  readonly peerCheck: PeerCheck | undefined;
}

export class BunDial implements SocketOwner {
  readonly #options: BunDialOptions;
  #handler: DialHandler | undefined;
  #socket: BunSocket | undefined;

  constructor(options: BunDialOptions, handler: DialHandler) {
    this.#options = options;
    this.#handler = handler;
  }

  cancel(): void {
    this.#handler = undefined;
    this.#socket?.terminate();
  }

  opened(socket: BunSocket): void {
    this.#socket = socket;
    if (!this.#handler) return socket.terminate();
    const { address, peerCheck, ticket } = this.#options;
    if (address.kind === "tcp") keepAlive(socket, address.host);
    if (!peerCheck) return this.#connected(socket, undefined);
    if (ticket) socket.setSession(ticket);
  }

  handshaken(socket: BunSocket, success: boolean, error: BunTlsError | null): void {
    if (!wasCompleted(success, error)) return this.#failed("handshake", tlsWords(messageOf(error)));
    // Bun calls it a success if the host name fits, with any signer: its objection is in the error only.
    const peer = new BunPeer(socket, this.#options.peerCheck ?? "checked", error);
    if (peer.leaf === undefined) return this.#failed("handshake", peer.reason || messageOf(error));
    this.#connected(socket, peer);
  }

  connectFailed(error: unknown): void {
    this.#failed("connect", connectWords(error));
  }

  received(): void {}

  drained(): void {}

  peerEnded(): void {
    this.#failed("handshake", SERVER_GONE);
  }

  closed(error: Error | undefined): void {
    this.#failed("handshake", error ? messageOf(error) : SERVER_GONE);
  }

  broke(error: Error): void {
    this.#failed("handshake", tlsWords(messageOf(error)));
  }

  #connected(socket: BunSocket, peer: PresentedPeer | undefined): void {
    const handler = this.#handler;
    if (!handler) return;
    this.#handler = undefined;
    handler.onConnected(new BunConnection(socket, formatAddress(this.#options.address)), peer);
  }

  #failed(stage: "connect" | "handshake", reason: string): void {
    const handler = this.#handler;
    this.#handler = undefined;
    // No socket stays open to a server that closed or that we cannot talk to.
    if (handler) this.#socket?.terminate();
    handler?.onFailed(stage, reason);
  }
}
