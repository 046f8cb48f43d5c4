/**
 * Accepted sockets on their way to a stream. Where a chooser decides, the client's first message is
 * looked at before the handshake begins and while its bytes still wait in the kernel.
 *
 * @module
 */

import { messageOf } from "../../base/mod.ts";
import { type ClientHello, readClientHello } from "../../wire/mod.ts";
import { discard, peek, type Unwatch, watchArrivals } from "../linux/arrival_watch.ts";
import { BunConnection } from "./bun_connection.ts";
import { type BunTlsError, type SocketOwner, STREAM_HANDLER } from "./bun_owner.ts";
import { BunPeer } from "./bun_peer.ts";
import type { BunSocket, BunTlsOptions } from "./bun_types.ts";
import { choiceOf, fatalAlert, type TlsChoice } from "../first_message.ts";
import type {
  AcceptedConnection,
  HandshakeOutcome,
  PeerCheck,
  ServerTls,
  ServerTlsChooser,
} from "../port.ts";
import { localOf, remoteOf } from "../socket_address.ts";
import { tlsWords } from "../tls_words.ts";

export interface BunServerTls extends ServerTls {
  readonly options: BunTlsOptions;
  readonly peerCheck: PeerCheck;
}

const GONE = "the connection was closed before the handshake was done";
const CANNOT_WAIT =
  "Cannot read the client's first message: this system does not let us wait for it";

/** A listener's fresh TCP connection. */
export class BunAccepted implements AcceptedConnection, SocketOwner {
  readonly remote: string;
  /** The plain socket, and once the handshake began the TLS one, which owns the connection then. */
  #socket: BunSocket;
  readonly #onChooser: () => void;
  #handler: ((outcome: HandshakeOutcome) => void) | undefined;
  #used = false;
  /** Only while a chooser has not decided: for the first message, then for its answer. */
  #chooser: ServerTlsChooser | undefined;
  #choosing = false;
  #unwatch: Unwatch | undefined;
  #peerCheck: PeerCheck = "checked";

  /** `onChooser`: told when a chooser decides, before its client is waited for. */
  constructor(raw: BunSocket, onChooser: () => void) {
    this.#socket = raw;
    this.#onChooser = onChooser;
    this.remote = remoteOf(raw);
  }

  get local(): string {
    return localOf(this.#socket);
  }

  /** Not secured at once: its bytes stay in the kernel, for they would be lost here. */
  handedOut(): void {
    if (!this.#used) this.#socket.pause();
  }

  secure(tls: ServerTls | ServerTlsChooser, handler: (outcome: HandshakeOutcome) => void): void {
    this.#handler = handler;
    this.#used = true;
    if (tls.kind === "server") return this.#shakeHands(tls);
    this.#onChooser();
    this.#socket.data = this;
    this.#chooser = tls;
    this.#look(tls);
  }

  reset(): void {
    this.#handler = undefined;
    this.#used = true;
    this.#stopWaiting();
    this.#socket.terminate();
  }

  handshaken(socket: BunSocket, success: boolean, error: BunTlsError | null): void {
    if (!success) return this.#failed(tlsWords(messageOf(error)), error?.code === "ECONNRESET");
    const handler = this.#handler;
    if (!handler) return;
    this.#handler = undefined;
    const connection = new BunConnection(socket, this.remote);
    handler({ kind: "secured", connection, peer: new BunPeer(socket, this.#peerCheck, error) });
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
    this.#failed(tlsWords(messageOf(error)), false);
  }

  /** The plain socket is closed; once the handshake began the TLS one tells. */
  rawClosed(error: Error | null | undefined): void {
    if (this.#chooser) this.closed(error ?? undefined);
  }

  #shakeHands(tls: ServerTls): void {
    const { options, peerCheck } = tls as BunServerTls;
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
      this.#failed(messageOf(error), false);
    }
  }

  #look(chooser: ServerTlsChooser): void {
    const bytes = peek(this.#socket.fd);
    if (bytes?.length === 0) return this.#left();
    const reading = bytes ? readClientHello(bytes) : undefined;
    switch (reading?.kind) {
      case undefined:
      case "partial":
        return this.#wait();
      case "invalid":
        return this.#refuse({ kind: "refused", reason: reading.reason, alert: "decode_error" });
      case "complete":
        return this.#choose(chooser, reading.hello);
    }
  }

  #choose(chooser: ServerTlsChooser, hello: ClientHello): void {
    const choice = choiceOf(chooser, hello);
    if (!(choice instanceof Promise)) return this.#chosen(choice);
    this.#choosing = true;
    this.#wait();
    choice.then((late) => this.#chosen(late));
  }

  #chosen(choice: TlsChoice): void {
    // Ended meanwhile, and told so.
    if (!this.#chooser) return;
    if (choice.kind === "refused") return this.#refuse(choice);
    this.#stopWaiting();
    this.#socket.data = undefined;
    this.#shakeHands(choice.tls);
  }

  #wait(): void {
    if (this.#unwatch || !this.#handler) return;
    this.#socket.pause();
    this.#unwatch = watchArrivals(this.#socket.fd, (peerEnded) => {
      if (peerEnded) return this.#left();
      if (this.#chooser && !this.#choosing) this.#look(this.#chooser);
    });
    if (!this.#unwatch) {
      this.#refuse({ kind: "refused", reason: CANNOT_WAIT, alert: "internal_error" });
    }
  }

  #stopWaiting(): void {
    this.#chooser = undefined;
    this.#unwatch?.(this.#socket.fd);
  }

  /** A client that no longer listens or speaks. */
  #left(): void {
    this.#failed(GONE, true);
    this.#socket.terminate();
  }

  #refuse({ reason, alert }: TlsChoice & { readonly kind: "refused" }): void {
    this.#stopWaiting();
    const socket = this.#socket;
    discard(socket.fd);
    const message = fatalAlert(alert);
    socket.write(message, 0, message.length);
    socket.end();
    this.#failed(reason, false);
  }

  #failed(reason: string, gone: boolean): void {
    this.#stopWaiting();
    const handler = this.#handler;
    this.#handler = undefined;
    handler?.({ kind: "failed", reason, gone });
  }
}
