/**
 * Sockets on their way to a stream: accepted ones that shake hands, and dialled ones that connect first.
 * Each tells its handler exactly once how it went.
 *
 * @module
 */

import { type Address, formatAddress, messageOf } from "../base/mod.ts";
import { BunConnection, keepAlive, remoteOf } from "./bun_connection.ts";
import { type BunTlsError, type SocketOwner, STREAM_HANDLER } from "./bun_owner.ts";
import type { BunSocket, BunTlsOptions } from "./bun_types.ts";
import type {
  AcceptedConnection,
  DialHandler,
  HandshakeOutcome,
  PresentedPeer,
  ServerTls,
  Ticket,
} from "./port.ts";
import { presentedCertificates } from "./session.ts";

export interface BunServerTls extends ServerTls {
  readonly options: BunTlsOptions;
}

const GONE = "the connection was closed before the handshake was done";
const SERVER_GONE = "the server closed the connection";

/** A listener's fresh TCP connection. */
export class Accepted implements AcceptedConnection, SocketOwner {
  readonly remote: string;
  /** The plain socket, and once the handshake began the TLS one, which owns the connection then. */
  #socket: BunSocket;
  #handler: ((outcome: HandshakeOutcome) => void) | undefined;
  #used = false;
  #held = false;

  constructor(raw: BunSocket) {
    this.#socket = raw;
    this.remote = remoteOf(raw);
  }

  /** Not secured at once: its bytes stay in the kernel, for they would be lost here. */
  handedOut(): void {
    if (this.#used) return;
    this.#held = true;
    this.#socket.pause();
  }

  secure(tls: ServerTls, handler: (outcome: HandshakeOutcome) => void): void {
    this.#handler = handler;
    this.#used = true;
    if (this.#held) this.#socket.resume();
    try {
      const [, secured] = this.#socket.upgradeTLS({
        isServer: true,
        tls: (tls as BunServerTls).options,
        data: this,
        socket: STREAM_HANDLER,
      });
      this.#socket = secured;
    } catch (error) {
      this.#failed(messageOf(error), false);
    }
  }

  reset(): void {
    this.#handler = undefined;
    this.#used = true;
    this.#socket.terminate();
  }

  handshaken(socket: BunSocket, success: boolean, error: BunTlsError | null): void {
    if (!success) return this.#failed(messageOf(error), error?.code === "ECONNRESET");
    const handler = this.#handler;
    if (!handler) return;
    this.#handler = undefined;
    const connection = new BunConnection(socket, this.remote);
    handler({ kind: "secured", connection, peer: new BunPeer(socket, error) });
  }

  received(): void {}

  drained(): void {}

  peerEnded(): void {
    this.#failed(GONE, true);
  }

  closed(error: Error | undefined): void {
    this.#failed(error ? messageOf(error) : GONE, true);
  }

  broke(error: Error): void {
    this.#failed(messageOf(error), false);
  }

  #failed(reason: string, gone: boolean): void {
    const handler = this.#handler;
    this.#handler = undefined;
    handler?.({ kind: "failed", reason, gone });
  }
}

/** A connection that we dial. */
export class Dialling implements SocketOwner {
  readonly #address: Address;
  readonly #secure: boolean;
  readonly #ticket: Ticket | undefined;
  #handler: DialHandler | undefined;
  #socket: BunSocket | undefined;

  constructor(
    options: {
      readonly address: Address;
      readonly secure: boolean;
      readonly ticket?: Ticket | undefined;
    },
    handler: DialHandler,
  ) {
    this.#address = options.address;
    this.#secure = options.secure;
    this.#ticket = options.ticket;
    this.#handler = handler;
  }

  cancel(): void {
    this.#handler = undefined;
    this.#socket?.terminate();
  }

  opened(socket: BunSocket): void {
    this.#socket = socket;
    if (!this.#handler) return socket.terminate();
    if (this.#address.kind === "tcp") keepAlive(socket, this.#address.host);
    if (!this.#secure) return this.#connected(socket, undefined);
    if (this.#ticket) socket.setSession(this.#ticket);
  }

  handshaken(socket: BunSocket, success: boolean, error: BunTlsError | null): void {
    const peer = new BunPeer(socket, success ? null : error);
    // The peer's certificate is there whenever the handshake itself went through.
    if (!success && peer.leaf === undefined) return this.#failed("handshake", messageOf(error));
    this.#connected(socket, peer);
  }

  connectFailed(error: unknown): void {
    this.#failed("connect", messageOf(error));
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
    this.#failed("handshake", messageOf(error));
  }

  #connected(socket: BunSocket, peer: PresentedPeer | undefined): void {
    const handler = this.#handler;
    if (!handler) return;
    this.#handler = undefined;
    handler.onConnected(new BunConnection(socket, formatAddress(this.#address)), peer);
  }

  #failed(stage: "connect" | "handshake", reason: string): void {
    const handler = this.#handler;
    this.#handler = undefined;
    // A server that closed on us, or one that we cannot talk to, keeps no socket of ours.
    if (handler) this.#socket?.terminate();
    handler?.onFailed(stage, reason);
  }
}

/** Bun checks a host name where Consul has none; any other complaint is about the chain. */
const HOST_NAME_ERROR = "ERR_TLS_CERT_ALTNAME_INVALID";

/** What a peer showed; what costs something is looked up when asked for. */
class BunPeer implements PresentedPeer {
  readonly leaf: Uint8Array | undefined;
  readonly reason: string;
  readonly #socket: BunSocket;

  constructor(socket: BunSocket, error: BunTlsError | null) {
    this.#socket = socket;
    this.leaf = socket.getPeerX509Certificate()?.raw;
    if (this.leaf === undefined) this.reason = "no certificate was presented";
    else this.reason = error && error.code !== HOST_NAME_ERROR ? messageOf(error) : "";
  }

  get accepted(): boolean {
    return this.reason === "";
  }

  chain(): readonly Uint8Array[] {
    const session = this.#socket.getSession();
    return session ? presentedCertificates(session) : [];
  }

  get version(): string {
    return this.#socket.getTLSVersion();
  }

  get resumed(): boolean {
    return this.#socket.isSessionReused();
  }
}
