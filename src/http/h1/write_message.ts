/** Writes heads and bodies of messages; no field can end its line, whatever its source. @module */

import type { Stream } from "../../net/mod.ts";
import { FIELD, type Fields } from "../head.ts";
import { isLawful, readyOctets, writeLatin1 } from "../latin1.ts";

const CR = 13;
const LF = 10;
/** Placeholder for the end of a line, until all text of others has been checked. */
const GAP = "  ";

let scratch = new Uint8Array(16 * 1024);

/**
 * Writes a head: its first line and fields, and the codec's own lines, each with its end; `second`: one
 * more line before the fields. False: stop until the stream drains; undefined: a part cannot be written,
 * and nothing was.
 */
export function writeHead(
  stream: Stream,
  first: string,
  fields: Fields,
  own: string,
  second = "",
): boolean | undefined {
  let text = first + GAP;
  if (second) text += second + GAP;
  let at = 0;
  for (let i = 0; i < fields.length; i += FIELD) {
    const value = fields[i + 1] ?? "";
    const octets = readyOctets(value);
    if (!octets) {
      text += `${fields[i + 2]}: ${value}${GAP}`;
      continue;
    }
    text += `${fields[i + 2]}: `;
    if (!isLawful(text)) return undefined;
    at = put(text, at);
    reserve(octets.length, at);
    scratch.set(octets, at);
    at += octets.length;
    text = GAP;
  }
  if (!isLawful(text)) return undefined;
  at = put(text, at);
  if (own) at = put(own, at);
  reserve(2, at);
  let end = first.length;
  endLine(end);
  if (second) endLine(end += GAP.length + second.length);
  for (let i = 0; i < fields.length; i += FIELD) {
    end += (fields[i + 2]?.length ?? 0) + (fields[i + 1]?.length ?? 0) + 2 + GAP.length;
    endLine(end);
  }
  endLine(at);
  return stream.write(scratch.subarray(0, at + 2));
}

/** Writes a text and returns its end. */
function put(text: string, at: number): number {
  reserve(text.length, at);
  return at + writeLatin1(scratch, text, at);
}

function endLine(at: number): void {
  scratch[at] = CR;
  scratch[at + 1] = LF;
}

/** Makes room for `length` bytes after the first `used`, which are kept. */
function reserve(length: number, used: number): void {
  if (scratch.length >= used + length) return;
  const larger = new Uint8Array(2 * (used + length));
  larger.set(scratch.subarray(0, used));
  scratch = larger;
}

/** Writes a text of the codec's own, unchecked. */
export function writeText(stream: Stream, text: string): boolean {
  return stream.write(scratch.subarray(0, put(text, 0)));
}

/** Reasons of common statuses (RFC 9110 15, RFC 6585, 8297); others have none. */
const REASONS: Readonly<Record<number, string>> = {
  100: "Continue",
  101: "Switching Protocols",
  102: "Processing",
  103: "Early Hints",
  200: "OK",
  201: "Created",
  202: "Accepted",
  203: "Non-Authoritative Information",
  204: "No Content",
  205: "Reset Content",
  206: "Partial Content",
  207: "Multi-Status",
  300: "Multiple Choices",
  301: "Moved Permanently",
  302: "Found",
  303: "See Other",
  304: "Not Modified",
  307: "Temporary Redirect",
  308: "Permanent Redirect",
  400: "Bad Request",
  401: "Unauthorized",
  402: "Payment Required",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  406: "Not Acceptable",
  407: "Proxy Authentication Required",
  408: "Request Timeout",
  409: "Conflict",
  410: "Gone",
  411: "Length Required",
  412: "Precondition Failed",
  413: "Content Too Large",
  414: "URI Too Long",
  415: "Unsupported Media Type",
  416: "Range Not Satisfiable",
  417: "Expectation Failed",
  418: "I'm a Teapot",
  421: "Misdirected Request",
  422: "Unprocessable Content",
  423: "Locked",
  424: "Failed Dependency",
  425: "Too Early",
  426: "Upgrade Required",
  428: "Precondition Required",
  429: "Too Many Requests",
  431: "Request Header Fields Too Large",
  451: "Unavailable For Legal Reasons",
  500: "Internal Server Error",
  501: "Not Implemented",
  502: "Bad Gateway",
  503: "Service Unavailable",
  504: "Gateway Timeout",
  505: "HTTP Version Not Supported",
  507: "Insufficient Storage",
  511: "Network Authentication Required",
};

const LINES: readonly string[] = Array.from(
  { length: 1000 },
  (_, status) => `HTTP/1.1 ${status} ${REASONS[status] ?? ""}`,
);

/** Without its line end. */
export function statusLine(status: number): string {
  return LINES[status] ?? `HTTP/1.1 ${status} `;
}

/** The response to an invalid request; the connection ends with it. */
export function refusal(status: number): string {
  const words = REASONS[status] ?? "";
  return `${statusLine(status)}\r\ncontent-length: ${words.length}\r\n` +
    `content-type: text/plain\r\nconnection: close\r\n\r\n${words}`;
}

/** How the end of a body is marked. */
export type Framing = "none" | "length" | "chunked" | "until_close";

export class BodyWriter {
  readonly #stream: Stream;
  framing: Framing = "none";
  /** Bytes of the declared length that are still to be sent. */
  #left = 0;

  constructor(stream: Stream) {
    this.#stream = stream;
  }

  start(framing: Framing, length: number): void {
    this.framing = framing;
    this.#left = length;
  }

  /** The receiver can tell that it has the whole message. */
  get isComplete(): boolean {
    return this.framing === "none" || this.framing === "length" && this.#left === 0;
  }

  /** False: stop until the stream drains; undefined: too long for the declared length, and not sent. */
  send(chunk: Uint8Array): boolean | undefined {
    const { length } = chunk;
    // An empty chunk would end the body.
    if (length === 0) return true;
    switch (this.framing) {
      case "none":
        return true;
      case "length":
        if (length > this.#left) return undefined;
        this.#left -= length;
        return this.#stream.give(chunk);
      case "chunked":
        writeText(this.#stream, `${length.toString(16)}\r\n`);
        this.#stream.give(chunk);
        return writeText(this.#stream, "\r\n");
      case "until_close":
        return this.#stream.give(chunk);
    }
  }

  /** False: less was sent than was declared, or a trailer cannot be written. */
  end(trailers: Fields | undefined): boolean {
    if (this.framing === "length") return this.#left === 0;
    if (this.framing !== "chunked") return true;
    if (!trailers?.length) {
      writeText(this.#stream, "0\r\n\r\n");
      return true;
    }
    return writeHead(this.#stream, "0", trailers, "") !== undefined;
  }
}
