/**
 * Accepted connections until they are a TLS stream, the part that both engines share: bytes before the
 * handshake, the ClientHello as such, and clients that get no handshake. An engine reads, writes and shakes
 * hands.
 *
 * @module
 */

import { messageOf } from "../base/mod.ts";
import { type ClientHello, readClientHello } from "../wire/mod.ts";
import {
  type AcceptedConnection,
  type HandshakeOutcome,
  PREFACE_LIMIT_BYTES,
  type PrefaceOutcome,
  type PrefaceReader,
  type ServerTls,
  type ServerTlsChooser,
} from "./port.ts";

/** Alerts that end a handshake before it began (RFC 8446 6.2). */
const ALERT = { decode_error: 50, internal_error: 80, unrecognized_name: 112 } as const;

/** A client that gets no handshake; `alert`: for one that begins with TLS. */
interface TlsRefusal {
  readonly kind: "refused";
  readonly reason: string;
  readonly alert: keyof typeof ALERT;
}

type TlsChoice = ServerTls | TlsRefusal;

/** First bytes that are awaited: their reader, and the continuation after the last reading. */
interface AwaitedPreface {
  readonly read: PrefaceReader;
  /** Called once; undefined: the bytes are read. */
  readonly done: (refused: TlsRefusal | undefined) => void;
}

const MORE_THAN_LIMIT = `the client's first ${PREFACE_LIMIT_BYTES} bytes do not end its preface`;

export const GONE = "the connection was closed before the handshake was done";

export abstract class TlsAcceptor implements AcceptedConnection {
  readonly remote: string;
  abstract readonly local: string;
  /** Undefined: nothing is under way, or its outcome was reported. */
  protected handler: ((outcome: HandshakeOutcome) => void) | undefined;
  /** A preface or a handshake was asked for, or the connection was reset. */
  protected used = false;
  /** Its first bytes are not read yet. */
  #awaited: AwaitedPreface | undefined;

  constructor(remote: string) {
    this.remote = remote;
  }

  /** Begins to read first bytes, up to {@link TlsAcceptor.stopReading}: all of them go to `arrived`. */
  protected abstract startReading(): void;
  protected abstract stopReading(): void;
  /** More first bytes are needed, or a choice is awaited: the client may leave meanwhile. */
  protected abstract watch(): void;
  /** Takes the first `size` of the bytes that arrived; false: they are gone. */
  protected abstract take(size: number): boolean;
  /** The first bytes are read; those not taken belong to what follows. */
  protected abstract handOver(): void;
  protected abstract shakeHands(tls: ServerTls): void;
  /** Ends the connection after these bytes, which the client must be able to read. */
  protected abstract endWith(bytes: Uint8Array): void;
  protected abstract terminate(): void;
  /** The client neither sends nor reads any more. */
  protected abstract left(): void;

  /** The connection was passed to its owner, which may not have used it yet. */
  handedOut(): void {}

  preface(read: PrefaceReader, handler: (outcome: PrefaceOutcome) => void): void {
    this.handler = (outcome) => {
      if (outcome.kind === "failed") handler(outcome);
    };
    this.#await({
      read,
      done: (refused) => {
        this.stopWaiting();
        if (refused) {
          this.failed(refused.reason, false);
          return this.terminate();
        }
        this.handOver();
        this.handler = undefined;
        this.used = false;
        handler({ kind: "read" });
        this.handedOut();
      },
    });
  }

  secure(tls: ServerTls | ServerTlsChooser, handler: (outcome: HandshakeOutcome) => void): void {
    this.handler = handler;
    if (tls.kind === "chooser") return this.#awaitHello(tls);
    this.used = true;
    this.shakeHands(tls);
  }

  reset(): void {
    this.handler = undefined;
    this.used = true;
    this.stopWaiting();
    this.terminate();
  }

  /** The ClientHello is a preface that uses no bytes. */
  #awaitHello(chooser: ServerTlsChooser): void {
    let hello: ClientHello | undefined;
    this.#await({
      read(bytes) {
        const reading = readClientHello(bytes);
        if (reading.kind === "partial") return "more";
        if (reading.kind === "invalid") return { fault: reading.reason };
        hello = reading.hello;
        return { used: 0 };
      },
      done: (refused) => {
        const choice = refused ?? choiceOf(chooser, hello as ClientHello);
        if (!(choice instanceof Promise)) return this.#chosen(choice);
        this.watch();
        choice.then((late) => this.#chosen(late));
      },
    });
  }

  #await(preface: AwaitedPreface): void {
    this.used = true;
    this.#awaited = preface;
    this.startReading();
  }

  /** `bytes`: all that have arrived and were not taken. */
  protected arrived(bytes: Uint8Array): void {
    if (!this.#awaited) return;
    const { read, done } = this.#awaited;
    const isWhole = bytes.length < PREFACE_LIMIT_BYTES;
    let reading = read(isWhole ? bytes : bytes.subarray(0, PREFACE_LIMIT_BYTES));
    if (reading === "more") {
      if (isWhole) return this.watch();
      reading = { fault: MORE_THAN_LIMIT };
    }
    this.#awaited = undefined;
    if ("fault" in reading) return done(refusal(reading.fault, "decode_error"));
    if (reading.used > 0 && !this.take(reading.used)) return this.left();
    done(undefined);
  }

  /** Whether bytes that arrive are to be read. */
  protected get isAwaiting(): boolean {
    return this.#awaited !== undefined;
  }

  #chosen(choice: TlsChoice): void {
    // The connection ended meanwhile, which was reported.
    if (!this.handler) return;
    if (choice.kind === "refused") return this.#refuse(choice);
    this.stopWaiting();
    this.handOver();
    this.shakeHands(choice);
  }

  /** The engine cannot wait for what was asked for. */
  protected cannotWait(reason: string): void {
    const refused = refusal(reason, "internal_error");
    if (this.#awaited) this.#awaited.done(refused);
    else this.#refuse(refused);
  }

  #refuse({ reason, alert }: TlsRefusal): void {
    this.stopWaiting();
    // A whole record in plain text: no key was agreed on yet.
    this.endWith(Uint8Array.of(0x15, 3, 3, 0, 2, 2, ALERT[alert]));
    this.failed(reason, false);
  }

  protected stopWaiting(): void {
    this.#awaited = undefined;
    this.stopReading();
  }

  protected failed(reason: string, gone: boolean): void {
    this.stopWaiting();
    const { handler } = this;
    this.handler = undefined;
    handler?.({ kind: "failed", reason, gone });
  }
}

/** Never throws and never rejects. */
function choiceOf(chooser: ServerTlsChooser, hello: ClientHello): TlsChoice | Promise<TlsChoice> {
  const { serverName } = hello;
  const unknown = serverName === undefined
    ? "no certificate for a client that names no host"
    : `no certificate for "${serverName}"`;
  const chosen = (tls: ServerTls | undefined) => tls ?? refusal(unknown, "unrecognized_name");
  const failed = (error: unknown) =>
    refusal(`cannot choose a certificate: ${messageOf(error)}`, "internal_error");
  try {
    const answer = chooser.choose(hello);
    return answer instanceof Promise ? answer.then(chosen, failed) : chosen(answer);
  } catch (error) {
    return failed(error);
  }
}

function refusal(reason: string, alert: TlsRefusal["alert"]): TlsRefusal {
  return { kind: "refused", reason, alert };
}
