// deno-lint-ignore-file no-control-regex
/** Detects peers that speak another protocol or HTTP version by their first bytes. @module */

import { latin1 } from "./latin1.ts";
import type { Stream, StreamEvents } from "../net/mod.ts";

/** Bytes to look at; a method and the greeting of any protocol are far shorter. */
const LOOKED_AT = 256;

const GREETINGS: readonly (readonly [pattern: RegExp, words: string])[] = [
  [/^\x16\x03/, "TLS"],
  [/^\x15\x03/, "a TLS alert"],
  [/^HTTP\/1\./, "HTTP/1.1"],
  [/^PRI \* HTTP\/2/, "HTTP/2"],
  // SETTINGS on stream 0 is the first frame of an HTTP/2 server.
  [/^\0[^][^]\x04[\0\x01]\0\0\0\0/, "HTTP/2"],
  [/^SSH-/, "SSH"],
  [/^220[ -]/, "SMTP or FTP"],
  [/^[^]{3}\0\x0a[0-9]/, "MySQL"],
  [/^AMQP/, "AMQP"],
  [/^[+]OK|^-ERR/, "Redis or POP3"],
];

/** The name of the protocol that `text` begins like. */
export function spokenIn(text: string): string {
  return GREETINGS.find(([pattern]) => pattern.test(text))?.[1] ?? "no HTTP";
}

/** As {@link spokenIn}. */
export function spokenInBytes(bytes: Uint8Array): string {
  return spokenIn(beginningOf(bytes));
}

const LINE_END = /[\r\n]/;
/** Octets of a token (RFC 9110 5.6.2) and the space after it; old clients send an empty line first. */
const METHOD_BEGINS = /^(?:\r\n?)?(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+(?: |$)|$)/;
const REQUEST_LINE = /^(?:\r\n)?[^ \r\n]+ [^ \r\n]+ [^ \r\n]*HTTP\//i;

/** Whether no HTTP/1.1 request can begin with these bytes. */
export function isNoRequest(bytes: Uint8Array): boolean {
  const text = beginningOf(bytes);
  if (!METHOD_BEGINS.test(text)) return true;
  const line = text.startsWith("\r\n") ? text.slice(2) : text;
  return LINE_END.test(line) && line !== "\r" && !REQUEST_LINE.test(line);
}

const STATUS_LINE = "HTTP/1.";

/** Whether no HTTP/1.1 response can begin with these bytes. */
export function isNoResponse(bytes: Uint8Array): boolean {
  const length = Math.min(bytes.length, STATUS_LINE.length);
  for (let i = 0; i < length; i++) if (bytes[i] !== STATUS_LINE.charCodeAt(i)) return true;
  return false;
}

function beginningOf(bytes: Uint8Array): string {
  return latin1(bytes, 0, Math.min(bytes.length, LOOKED_AT));
}

/** No method of HTTP/1.1 begins like this; the HTTP/2 codec checks the rest of the preface. */
const PREFACE = "PRI ";

export class VersionSniffer implements StreamEvents {
  readonly #stream: Stream;
  readonly #decide: (isHttp2: boolean) => void;
  #chunks: Uint8Array[] = [];
  #seen = 0;

  /** `decide` must give the stream its next events; the kept bytes go to them. */
  constructor(stream: Stream, decide: (isHttp2: boolean) => void) {
    this.#stream = stream;
    this.#decide = decide;
    stream.events = this;
  }

  /** As {@link ServerConnection.openHead}. */
  get openHead(): number {
    return this.#seen > 0 ? 1 : 0;
  }

  onData(chunk: Uint8Array): void {
    this.#chunks.push(chunk);
    for (const byte of chunk) {
      if (byte !== PREFACE.charCodeAt(this.#seen)) return this.#over(false);
      if (++this.#seen === PREFACE.length) return this.#over(true);
    }
  }

  onEnd(): void {
    this.#over(false);
    this.#stream.events.onEnd();
  }

  onDrain(): void {}

  onClose(reset: boolean, alert: string): void {
    this.#decide(false);
    this.#stream.events.onClose(reset, alert);
  }

  #over(isHttp2: boolean): void {
    this.#decide(isHttp2);
    for (const chunk of this.#chunks) this.#stream.events.onData(chunk);
  }
}
