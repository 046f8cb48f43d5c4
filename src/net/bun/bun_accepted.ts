/**
 * Accepted sockets until they are a stream. Bytes before the handshake, as the ClientHello for a chooser,
 * are read with system calls of our own while they still wait in the kernel.
 *
 * @module
 */

import { messageOf } from "../../base/mod.ts";
import { discard, peek, type Unwatch, watchArrivals } from "../linux/arrival_watch.ts";
import { BunConnection } from "./bun_connection.ts";
import {
  type BunSocket,
  type BunTlsError,
  type BunTlsOptions,
  type SocketOwner,
  STREAM_HANDLER,
} from "./bun_sockets.ts";
import { BunPeer } from "./bun_peer.ts";
import {
  type AwaitedPreface,
  fatalAlert,
  helloPreface,
  readingOf,
  type TlsChoice,
  type TlsRefusal,
} from "../first_message.ts";
import {
  type AcceptedConnection,
  type HandshakeOutcome,
  localOf,
  type PeerCheck,
  type PrefaceOutcome,
  type PrefaceReader,
  remoteOf,
  type ServerTls,
  type ServerTlsChooser,
} from "../port.ts";
import { tlsWords } from "../error_words.ts";

export interface BunServerTls extends ServerTls {
  readonly options: BunTlsOptions;
  readonly peerCheck: PeerCheck;
}

const GONE = "the connection was closed before the handshake was done";
const CANNOT_WAIT =
  "Cannot read the client's first message: this system does not let us wait for it";

/** A listener's new TCP connection. */
export class BunAccepted implements AcceptedConnection, SocketOwner {
  readonly remote: string;
  /** The plain socket; once the handshake began the TLS one, which owns the connection then. */
  #socket: BunSocket;
  readonly #onAwaited: () => void;
  #handler: ((outcome: HandshakeOutcome) => void) | undefined;
  #used = false;
  /** The plain socket is ours: for first bytes, then for a chooser's decision. */
  #waiting = false;
  /** Its first bytes are not read yet. */
  #awaited: AwaitedPreface | undefined;
  #unwatch: Unwatch | undefined;
  #peerCheck: PeerCheck = "checked";

  /** `onAwaited`: called before the first bytes of this client are awaited. */
  constructor(raw: BunSocket, onAwaited: () => void) {
    this.#socket = raw;
    this.#onAwaited = onAwaited;
    this.remote = remoteOf(raw);
  }

  get local(): string {
    return localOf(this.#socket);
  }

  /** Unless it was secured at once its bytes stay in the kernel: Bun would drop them. */
  handedOut(): void {
    if (!this.#used) this.#socket.pause();
  }

  preface(read: PrefaceReader, handler: (outcome: PrefaceOutcome) => void): void {
    this.#used = true;
    this.#handler = (outcome) => {
      if (outcome.kind === "failed") handler(outcome);
    };
    this.#await({
      read,
      done: (refusal) => {
        this.#stopWaiting();
        if (refusal) {
          this.#failed(refusal.reason, false);
          return this.#socket.terminate();
        }
        this.#handler = undefined;
        this.#used = false;
        handler({ kind: "read" });
        this.handedOut();
      },
    });
  }

  secure(tls: ServerTls | ServerTlsChooser, handler: (outcome: HandshakeOutcome) => void): void {
    this.#handler = handler;
    this.#used = true;
    if (tls.kind === "server") return this.#shakeHands(tls);
    this.#await(helloPreface(tls, (choice) => {
      if (!(choice instanceof Promise)) return this.#chosen(choice);
      this.#watch();
      choice.then((late) => this.#chosen(late));
    }));
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

  /** The plain socket is closed; once the handshake began, the TLS socket reports that. */
  rawClosed(error: Error | null | undefined): void {
    if (this.#waiting) this.closed(error ?? undefined);
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

  #await(preface: AwaitedPreface): void {
    this.#onAwaited();
    this.#socket.data = this;
    this.#waiting = true;
    this.#awaited = preface;
    this.#read(preface);
  }

  #read({ read, done }: AwaitedPreface): void {
    const { fd } = this.#socket;
    const bytes = peek(fd);
    if (bytes?.length === 0) return this.#left();
    const reading = bytes ? readingOf(read, bytes) : "more";
    if (reading === "more") return this.#watch();
    this.#awaited = undefined;
    if ("fault" in reading) {
      return done({ kind: "refused", reason: reading.fault, alert: "decode_error" });
    }
    if (reading.used > 0 && !discard(fd, reading.used)) return this.#left();
    done(undefined);
  }

  #chosen(choice: TlsChoice): void {
    // The connection ended meanwhile, which was reported.
    if (!this.#waiting) return;
    if (choice.kind === "refused") return this.#refuse(choice);
    this.#stopWaiting();
    this.#socket.data = undefined;
    this.#shakeHands(choice.tls);
  }

  #watch(): void {
    if (this.#unwatch || !this.#handler) return;
    this.#socket.pause();
    this.#unwatch = watchArrivals(this.#socket.fd, (peerEnded) => {
      if (peerEnded) return this.#left();
      if (this.#awaited) this.#read(this.#awaited);
    });
    if (this.#unwatch) return;
    const refusal: TlsRefusal = { kind: "refused", reason: CANNOT_WAIT, alert: "internal_error" };
    if (this.#awaited) this.#awaited.done(refusal);
    else this.#refuse(refusal);
  }

  #stopWaiting(): void {
    this.#waiting = false;
    this.#awaited = undefined;
    this.#unwatch?.(this.#socket.fd);
    this.#unwatch = undefined;
  }

  /** The client neither sends nor reads any more. */
  #left(): void {
    this.#failed(GONE, true);
    this.#socket.terminate();
  }

  #refuse({ reason, alert }: TlsRefusal): void {
    this.#stopWaiting();
    const socket = this.#socket;
    // A socket closed with unread bytes breaks its connection before the alert arrives.
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
