/**
 * Bytes before a handshake, the same on both engines: the limit of a preface, the ClientHello as one,
 * and the alert of a client that gets no handshake.
 *
 * @module
 */

import { messageOf } from "../base/mod.ts";
import { type ClientHello, readClientHello } from "../wire/mod.ts";
import {
  PREFACE_LIMIT_BYTES,
  type PrefaceReader,
  type PrefaceReading,
  type ServerTls,
  type ServerTlsChooser,
} from "./port.ts";

/** Alerts that end a handshake before it began (RFC 8446 6.2). */
const ALERT = { decode_error: 50, internal_error: 80, unrecognized_name: 112 } as const;

export interface TlsRefusal {
  readonly kind: "refused";
  readonly reason: string;
  /** For a client that begins with TLS. */
  readonly alert: keyof typeof ALERT;
}

export type TlsChoice = { readonly kind: "chosen"; readonly tls: ServerTls } | TlsRefusal;

/** First bytes that are awaited: their reader, and the continuation after the last reading. */
export interface AwaitedPreface {
  readonly read: PrefaceReader;
  /** Called once; undefined: the bytes are read. */
  readonly done: (refusal: TlsRefusal | undefined) => void;
}

const MORE_THAN_LIMIT: PrefaceReading = {
  fault: `the client's first ${PREFACE_LIMIT_BYTES} bytes do not end its preface`,
};

/** Reads `bytes`, and refuses an incomplete preface at the limit. */
export function readingOf(read: PrefaceReader, bytes: Uint8Array): PrefaceReading {
  const whole = bytes.length < PREFACE_LIMIT_BYTES;
  const reading = read(whole ? bytes : bytes.subarray(0, PREFACE_LIMIT_BYTES));
  return reading === "more" && !whole ? MORE_THAN_LIMIT : reading;
}

/** A preface that uses no bytes: the ClientHello, for which `chosen` gets the choice. */
export function helloPreface(
  chooser: ServerTlsChooser,
  chosen: (choice: TlsChoice | Promise<TlsChoice>) => void,
): AwaitedPreface {
  let hello: ClientHello | undefined;
  return {
    read(bytes) {
      const reading = readClientHello(bytes);
      if (reading.kind === "partial") return "more";
      if (reading.kind === "invalid") return { fault: reading.reason };
      hello = reading.hello;
      return { used: 0 };
    },
    done: (refusal) => chosen(refusal ?? choiceOf(chooser, hello as ClientHello)),
  };
}

/** Never throws and never rejects. */
function choiceOf(
  chooser: ServerTlsChooser,
  hello: ClientHello,
): TlsChoice | Promise<TlsChoice> {
  try {
    const answer = chooser.choose(hello);
    if (!(answer instanceof Promise)) return choice(answer, hello);
    return answer.then((tls) => choice(tls, hello), failed);
  } catch (error) {
    return failed(error);
  }
}

/** The alert as a whole record in plain text: no key was agreed on yet. */
export function fatalAlert(alert: keyof typeof ALERT): Uint8Array {
  return Uint8Array.of(0x15, 3, 3, 0, 2, 2, ALERT[alert]);
}

function choice(tls: ServerTls | undefined, { serverName }: ClientHello): TlsChoice {
  if (tls) return { kind: "chosen", tls };
  const reason = serverName === undefined
    ? "no certificate for a client that names no host"
    : `no certificate for "${serverName}"`;
  return { kind: "refused", reason, alert: "unrecognized_name" };
}

function failed(error: unknown): TlsChoice {
  const reason = `cannot choose a certificate: ${messageOf(error)}`;
  return { kind: "refused", reason, alert: "internal_error" };
}
