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
import {
  type AwaitedPreface,
  fatalAlert,
  helloPreface,
  readingOf,
  type TlsChoice,
  type TlsRefusal,
} from "../first_message.ts";
import { NodeConnection, onTransportOver } from "./node_connection.ts";
import { peerOf, suiteRefused } from "./node_peer.ts";
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

export interface NodeServerTls extends ServerTls {
  readonly options: object;
  readonly suites: readonly string[];
  readonly peerCheck: PeerCheck;
}

/** Bytes held while a choice is awaited; more wait in the kernel. */
const EARLY_LIMIT_BYTES = 64 * 1024;
const GONE = "the connection was closed before the handshake was done";

export class NodeAccepted implements AcceptedConnection {
  readonly remote: string;
  readonly #raw: net.Socket;
  #handler: ((outcome: HandshakeOutcome) => void) | undefined;
  /** Its first bytes are not read yet. */
  #awaited: AwaitedPreface | undefined;
  /** Bytes from the client that no preface has used. */
  #early: Uint8Array | undefined;
  /** Removes the listeners of the wait for first bytes and a choice. */
  #stop: (() => void) | undefined;

  constructor(raw: net.Socket) {
    this.#raw = raw;
    this.remote = remoteOf(raw);
    // An error before or during the handshake is reported once, by the close that follows.
    raw.on("error", () => {});
  }

  get local(): string {
    return localOf(this.#raw);
  }

  preface(read: PrefaceReader, handler: (outcome: PrefaceOutcome) => void): void {
    const raw = this.#raw;
    this.#handler = (outcome) => {
      if (outcome.kind === "failed") handler(outcome);
    };
    this.#await({
      read,
      done: (refusal) => {
        this.#stopWaiting();
        if (refusal) {
          this.#failed(refusal.reason, false);
          raw.resetAndDestroy();
          return;
        }
        raw.pause();
        this.#handler = undefined;
        handler({ kind: "read" });
      },
    });
  }

  secure(tls: ServerTls | ServerTlsChooser, handler: (outcome: HandshakeOutcome) => void): void {
    this.#handler = handler;
    if (tls.kind === "chooser") {
      return this.#await(helloPreface(tls, (choice) => {
        if (choice instanceof Promise) choice.then((late) => this.#chosen(late));
        else this.#chosen(choice);
      }));
    }
    if (this.#raw.destroyed) return this.#failed(GONE, true);
    this.#shakeHands(tls as NodeServerTls);
  }

  reset(): void {
    this.#handler = undefined;
    this.#raw.resetAndDestroy();
  }

  /** Reads first bytes until {@link #stopWaiting}; watches for the end of the client, too. */
  #await(preface: AwaitedPreface): void {
    const raw = this.#raw;
    if (raw.destroyed) return this.#failed(GONE, true);
    this.#awaited = preface;
    const left = () => {
      this.#stopWaiting();
      this.#failed(GONE, true);
      raw.destroy();
    };
    const arrived = (chunk: Uint8Array) => {
      this.#early = this.#early ? Buffer.concat([this.#early, chunk]) : chunk;
      if (this.#awaited) this.#read(this.#awaited);
      // A client need not send more before the choice, but may.
      else if (this.#early.length > EARLY_LIMIT_BYTES) raw.pause();
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
    if (this.#early) this.#read(preface);
    if (this.#stop !== undefined && raw.isPaused()) raw.resume();
  }

  #read({ read, done }: AwaitedPreface): void {
    const bytes = this.#early;
    if (!bytes) return;
    const reading = readingOf(read, bytes);
    if (reading === "more") return;
    this.#awaited = undefined;
    if ("fault" in reading) {
      return done({ kind: "refused", reason: reading.fault, alert: "decode_error" });
    }
    this.#early = reading.used < bytes.length ? bytes.subarray(reading.used) : undefined;
    done(undefined);
  }

  #chosen(choice: TlsChoice): void {
    if (!this.#handler) return;
    if (choice.kind === "refused") return this.#refuse(choice);
    this.#stopWaiting();
    this.#raw.pause();
    this.#shakeHands(choice.tls as NodeServerTls);
  }

  #refuse({ reason, alert }: TlsRefusal): void {
    const raw = this.#raw;
    this.#stopWaiting();
    // Later bytes are not waited for: unread ones would turn the end into a reset.
    raw.end(fatalAlert(alert), () => raw.destroy());
    this.#failed(reason, false);
  }

  #stopWaiting(): void {
    this.#awaited = undefined;
    this.#stop?.();
    this.#stop = undefined;
  }

  /** Not through `tls.Server`, which hides its objection to a certificate. */
  #shakeHands({ options, suites, peerCheck }: NodeServerTls): void {
    const raw = this.#raw;
    if (this.#early) raw.unshift(this.#early);
    this.#early = undefined;
    const socket = new tls.TLSSocket(raw, options);
    socket.on("error", (error: Error) => this.#failed(tlsWords(messageOf(error)), false));
    socket.on("close", () => this.#failed(GONE, true));
    onTransportOver(socket, () => void raw.destroy());
    socket.on("secure", () => {
      if (!this.#handler) return void socket.destroy();
      const peer = peerOf(socket, peerCheck, verifyErrorOf(socket));
      const refused = peerCheck === "checked" ? tlsWords(peer.reason) : "";
      const refusal = refused || suiteRefused(socket, suites);
      if (refusal !== "") {
        this.#failed(refusal, false);
        return void socket.destroy();
      }
      const settled = this.#handler;
      this.#handler = undefined;
      const connection = new NodeConnection(socket, { remote: this.remote, raw });
      settled({ kind: "secured", connection, peer });
    });
  }

  #failed(reason: string, gone: boolean): void {
    const handler = this.#handler;
    this.#handler = undefined;
    handler?.({ kind: "failed", reason, gone });
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
