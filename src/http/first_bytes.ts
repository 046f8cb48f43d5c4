// deno-lint-ignore-file no-control-regex
/**
 * Peers that speak no HTTP, or another version of it: certain by their first bytes, so that nobody waits
 * for more of what will never be a message. Pure; looks at {@link LOOKED_AT} bytes at most.
 *
 * @module
 */

import { latin1 } from "./latin1.ts";

/** Bytes of the beginning; a method and a protocol's greeting are far shorter. */
const LOOKED_AT = 256;

const GREETINGS: readonly (readonly [pattern: RegExp, words: string])[] = [
  [/^\x16\x03/, "TLS"],
  [/^\x15\x03/, "a TLS alert"],
  [/^HTTP\/1\./, "HTTP/1.1"],
  [/^PRI \* HTTP\/2/, "HTTP/2"],
  // SETTINGS on stream 0, which is what a server of HTTP/2 says first.
  [/^\0[^][^]\x04[\0\x01]\0\0\0\0/, "HTTP/2"],
  [/^SSH-/, "SSH"],
  [/^220[ -]/, "SMTP or FTP"],
  [/^[^]{3}\0\x0a[0-9]/, "MySQL"],
  [/^AMQP/, "AMQP"],
  [/^[+]OK|^-ERR/, "Redis or POP3"],
];

/** What the beginning looks like, in words. */
export function spokenIn(text: string): string {
  return GREETINGS.find(([pattern]) => pattern.test(text))?.[1] ?? "no HTTP";
}

/** As {@link spokenIn}. */
export function spokenInBytes(bytes: Uint8Array): string {
  return spokenIn(beginningOf(bytes));
}

const LINE_END = /[\r\n]/;
/** Octets of a token (RFC 9110 5.6.2) up to the space behind it, after the empty line of old clients. */
const METHOD_BEGINS = /^(?:\r\n?)?(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+(?: |$)|$)/;
const REQUEST_LINE = /^(?:\r\n)?[^ \r\n]+ [^ \r\n]+ [^ \r\n]*HTTP\//i;

/** Whether no request begins so, however it goes on. */
export function isNoRequest(bytes: Uint8Array): boolean {
  const text = beginningOf(bytes);
  if (!METHOD_BEGINS.test(text)) return true;
  const line = text.startsWith("\r\n") ? text.slice(2) : text;
  return LINE_END.test(line) && line !== "\r" && !REQUEST_LINE.test(line);
}

const STATUS_LINE = "HTTP/1.";

/** Whether no response of HTTP/1.1 begins so. */
export function isNoResponse(bytes: Uint8Array): boolean {
  const length = Math.min(bytes.length, STATUS_LINE.length);
  for (let i = 0; i < length; i++) if (bytes[i] !== STATUS_LINE.charCodeAt(i)) return true;
  return false;
}

function beginningOf(bytes: Uint8Array): string {
  return latin1(bytes, 0, Math.min(bytes.length, LOOKED_AT));
}
