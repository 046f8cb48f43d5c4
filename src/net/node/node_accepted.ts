/**
 * Accepted sockets of `node:net` on their way to a TLS stream. Where a chooser decides, the client's first
 * message is read, and put back for the handshake that follows.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import type * as net from "node:net";
import * as tls from "node:tls";
import { messageOf } from "../../base/mod.ts";
import { type ClientHello, readClientHello } from "../../wire/mod.ts";
import { choiceOf, fatalAlert, type TlsChoice } from "../first_message.ts";
import { NodeConnection, onTransportOver } from "./node_connection.ts";
import { peerOf, suiteRefused } from "./node_peer.ts";
import type {
  AcceptedConnection,
  HandshakeOutcome,
  PeerCheck,
  ServerTls,
  ServerTlsChooser,
} from "../port.ts";
import { localOf, remoteOf } from "../socket_address.ts";
import { tlsWords } from "../tls_words.ts";

export interface NodeServerTls extends ServerTls {
  readonly options: object;
  readonly suites: readonly string[];
  readonly peerCheck: PeerCheck;
}

/** Held while a choice is awaited; more waits in the kernel. */
const EARLY_LIMIT_BYTES = 64 * 1024;
const GONE = "the connection was closed before the handshake was done";

export class NodeAccepted implements AcceptedConnection {
  readonly remote: string;
  readonly #raw: net.Socket;
  #handler: ((outcome: HandshakeOutcome) => void) | undefined;

  constructor(raw: net.Socket) {
    this.#raw = raw;
    this.remote = remoteOf(raw);
    // Whatever breaks it before or during the handshake is told once, by what follows.
    raw.on("error", () => {});
  }

  get local(): string {
    return localOf(this.#raw);
  }

  secure(tls: ServerTls | ServerTlsChooser, handler: (outcome: HandshakeOutcome) => void): void {
    this.#handler = handler;
    if (this.#raw.destroyed) return this.#failed(GONE, true);
    if (tls.kind === "server") this.#shakeHands(tls as NodeServerTls);
    else this.#look(tls);
  }

  reset(): void {
    this.#handler = undefined;
    this.#raw.resetAndDestroy();
  }

  /** Reads until the first message is whole and answered; the end is watched for all the time. */
  #look(chooser: ServerTlsChooser): void {
    const raw = this.#raw;
    let bytes: Uint8Array = new Uint8Array();
    let choosing = false;
    const left = () => {
      stop();
      this.#failed(GONE, true);
      raw.destroy();
    };
    const refuse = ({ reason, alert }: TlsChoice & { readonly kind: "refused" }) => {
      stop();
      // What else it sent is not waited for: unread bytes would turn the end into a reset.
      raw.end(fatalAlert(alert), () => raw.destroy());
      this.#failed(reason, false);
    };
    const chosen = (choice: TlsChoice) => {
      if (!this.#handler) return;
      if (choice.kind === "refused") return refuse(choice);
      stop();
      raw.pause();
      raw.unshift(bytes);
      this.#shakeHands(choice.tls as NodeServerTls);
    };
    const choose = (hello: ClientHello) => {
      choosing = true;
      const choice = choiceOf(chooser, hello);
      if (choice instanceof Promise) choice.then(chosen);
      else chosen(choice);
    };
    const arrived = (chunk: Uint8Array) => {
      bytes = Buffer.concat([bytes, chunk]);
      if (choosing) {
        // A client has nothing more to say before it was answered, but may say it.
        if (bytes.length > EARLY_LIMIT_BYTES) raw.pause();
        return;
      }
      const reading = readClientHello(bytes);
      if (reading.kind === "complete") choose(reading.hello);
      else if (reading.kind === "invalid") {
        refuse({ kind: "refused", reason: reading.reason, alert: "decode_error" });
      }
    };
    const stop = () => {
      raw.off("data", arrived);
      raw.off("end", left);
      raw.off("close", left);
    };
    raw.on("data", arrived);
    raw.on("end", left);
    raw.on("close", left);
  }

  /** Not through `tls.Server`, which does not say what it minded about a certificate. */
  #shakeHands({ options, suites, peerCheck }: NodeServerTls): void {
    const raw = this.#raw;
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

/** What the library minded about the peer's chain; "" where nothing. */
function verifyErrorOf(socket: tls.TLSSocket): string {
  const handle = (socket as { readonly _handle?: { verifyError?(): unknown } | null })._handle;
  // Nobody to ask means nobody has checked.
  if (typeof handle?.verifyError !== "function") return "the TLS library gave no verdict";
  const error = handle.verifyError();
  return error ? messageOf(error) : "";
}
