/**
 * Reads heads and bodies of messages (RFC 9112 6, 7). The end of a body is found after a number of bytes, after
 * the last chunk, or with the connection. The payload of all chunks in one read is joined in the memory of that
 * read, so that it is delivered at once however small the chunks are; extensions are skipped.
 *
 * @module
 */

import { isProtected } from "../field_names.ts";
import { HeadFields } from "./parse_fields.ts";
import { FIELD, type Fields } from "../head.ts";
import type { HttpLimits } from "../exchange.ts";
import { hexOf } from "../path.ts";
import { emptyLineIn, latin1 } from "../latin1.ts";

/** Bytes of chunk extensions in a body, besides two for each byte of its payload. Signatures are shorter. */
const EXTENSION_BYTES = 4096;
/** At most 2^52: exact as a number. */
const SIZE_DIGITS = 13;

const CR = 13;
const LF = 10;
const SEMICOLON = 59;
const TAB = 9;
const SPACE = 32;
const DELETE = 127;

// The next part of the body.
const PAYLOAD = 0;
const SIZE = 1;
const EXTENSION = 2;
const SIZE_LF = 3;
const AFTER_CR = 4;
const AFTER_LF = 5;
const TRAILERS = 6;
const LAST_LF = 7;
const TRAILER_LINES = 8;
const COMPLETE = 9;

export class BodyReader {
  readonly #limits: HttpLimits;
  readonly #trailerReader: Http1HeadReader;
  /** Position of the payload in the chunk that was read. */
  from = 0;
  to = 0;
  trailers: Fields | undefined;
  /** The fault of the body, for people; `""`: none. */
  fault = "";
  /** Bytes of the payload that are still to come, of this chunk or of the body. */
  #left = 0;
  #chunked = false;
  #next = COMPLETE;
  #digits = 0;
  #extensionBytes = 0;

  constructor(limits: HttpLimits) {
    this.#limits = limits;
    this.#trailerReader = new Http1HeadReader(limits.headBytes);
  }

  get complete(): boolean {
    return this.#next === COMPLETE;
  }

  /** Bytes that are still to come; Infinity: unknown. */
  get left(): number {
    return this.#chunked ? Infinity : this.#left;
  }

  /** Begins a body of `length` bytes; Infinity: until the connection ends. */
  startLength(length: number): void {
    this.#start(false);
    this.#left = length;
    this.#next = length === 0 ? COMPLETE : PAYLOAD;
  }

  startChunked(): void {
    this.#start(true);
    this.#next = SIZE;
  }

  #start(chunked: boolean): void {
    this.#chunked = chunked;
    this.trailers = undefined;
    this.fault = "";
    this.#left = this.#digits = this.#extensionBytes = 0;
    this.#trailerReader.reset();
  }

  /**
   * Continues at `at`. Returns the end of the body, or of `chunk`. The payload lies from `from` to `to`;
   * bytes before that position in `chunk` may have been moved.
   */
  read(chunk: Uint8Array, at: number): number {
    this.from = this.to = at;
    while (at < chunk.length && this.#next !== COMPLETE && this.fault === "") {
      if (this.#next === PAYLOAD) at = this.#payload(chunk, at);
      else if (this.#next === TRAILER_LINES) at = this.#trailerLines(chunk, at);
      else at = this.#framing(chunk, at);
    }
    return at;
  }

  #payload(chunk: Uint8Array, at: number): number {
    const size = Math.min(this.#left, chunk.length - at);
    if (this.from === this.to) this.from = this.to = at;
    else if (this.to !== at) chunk.copyWithin(this.to, at, at + size);
    this.to += size;
    this.#left -= size;
    if (this.#left === 0) this.#next = this.#chunked ? AFTER_CR : COMPLETE;
    return at + size;
  }

  #framing(chunk: Uint8Array, at: number): number {
    const byte = chunk[at] ?? 0;
    switch (this.#next) {
      case SIZE: {
        const digit = hexOf(byte);
        if (digit >= 0) {
          if (++this.#digits > SIZE_DIGITS) {
            return this.#wrong("the size of a chunk is too large", at);
          }
          this.#left = this.#left * 16 + digit;
          return at + 1;
        }
        if (this.#digits === 0) return this.#wrong("a chunk without a size", at);
        if (byte === CR) this.#next = SIZE_LF;
        else if (byte === SEMICOLON) this.#next = EXTENSION;
        else return this.#wrong("the size of a chunk is no number", at);
        return at + 1;
      }
      case EXTENSION:
        if (byte === CR) this.#next = SIZE_LF;
        else if (byte < SPACE && byte !== TAB || byte >= DELETE) {
          return this.#wrong("the extension of a chunk has a control character", at);
        } else if (++this.#extensionBytes > EXTENSION_BYTES) {
          return this.#wrong("the extension of a chunk is too long", at);
        }
        return at + 1;
      case SIZE_LF:
        if (byte !== LF) return this.#wrong("the size of a chunk does not end in CR LF", at);
        this.#next = this.#left === 0 ? TRAILERS : PAYLOAD;
        this.#digits = 0;
        this.#extensionBytes = Math.max(0, this.#extensionBytes - 2 * this.#left);
        return at + 1;
      case AFTER_CR:
        if (byte !== CR) return this.#wrong("a chunk does not end in CR LF", at);
        this.#next = AFTER_LF;
        return at + 1;
      case AFTER_LF:
        if (byte !== LF) return this.#wrong("a chunk does not end in CR LF", at);
        this.#next = SIZE;
        return at + 1;
      case TRAILERS:
        this.#next = byte === CR ? LAST_LF : TRAILER_LINES;
        return byte === CR ? at + 1 : at;
      default:
        if (byte !== LF) return this.#wrong("the last chunk does not end in CR LF", at);
        this.#next = COMPLETE;
        return at + 1;
    }
  }

  #trailerLines(chunk: Uint8Array, at: number): number {
    const end = this.#trailerReader.read(chunk, at);
    if (end === PARTIAL) return chunk.length;
    if (end === TOO_LARGE) return this.#wrong("the trailers are too large", at);
    // Allocated only for a message with trailers.
    const fields = new HeadFields();
    const fault = fields.parse(this.#trailerReader.text, 0, this.#limits.fields);
    if (fault) return this.#wrong(fault.detail, at);
    const names = fields.fields.filter((_, i) => i % FIELD === 0);
    if (fields.meant || names.some(isProtected)) {
      return this.#wrong("a trailer that belongs in the head", at);
    }
    this.trailers = fields.fields;
    this.#next = COMPLETE;
    return end;
  }

  #wrong(detail: string, at: number): number {
    this.fault = detail;
    return at;
  }
}

export const PARTIAL = -1;
export const TOO_LARGE = -2;

const FIRST_BYTES = 1024;
const NOTHING = new Uint8Array();

/**
 * Finds the bytes of one head, or of trailers, in the chunks of a stream. Most heads lie in one chunk and are
 * not copied; slower ones are collected, and each byte is looked at once.
 */
export class Http1HeadReader {
  readonly #limitBytes: number;
  /** The last complete head: start line and fields, each with its CRLF, and the empty line at the end. */
  text = "";
  #bytes: Uint8Array | undefined;
  #length = 0;
  /** Length of the current line; a CR does not count. */
  #lineBytes = 0;
  #collected = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  /** Whether part of an incomplete head has come. */
  get begun(): boolean {
    return this.#length > 0;
  }

  /** Number of heads that came in more than one piece. */
  get collected(): number {
    return this.#collected;
  }

  get partial(): Uint8Array {
    return this.#bytes?.subarray(0, this.#length) ?? NOTHING;
  }

  /**
   * Continues at `at`. Returns the end of the head in `chunk`, or {@link PARTIAL} or {@link TOO_LARGE}. A
   * head with bare LF line ends is complete as well, and its parser refuses it.
   */
  read(chunk: Uint8Array, at: number): number {
    if (this.#length === 0) {
      const end = emptyLineIn(chunk, at) + 4;
      if (end > 3 && end - at <= this.#limitBytes) {
        this.text = latin1(chunk, at, end);
        return end;
      }
    }
    return this.#collect(chunk, at);
  }

  #collect(chunk: Uint8Array, at: number): number {
    const room = this.#limitBytes - this.#length;
    const stop = Math.min(chunk.length, at + room);
    let lineBytes = this.#lineBytes;
    for (let i = at; i < stop; i++) {
      const byte = chunk[i];
      if (byte !== LF) {
        if (byte !== CR) lineBytes++;
        continue;
      }
      if (lineBytes === 0) {
        this.#keep(chunk, at, i + 1);
        this.text = latin1(this.#bytes ?? chunk, 0, this.#length);
        this.reset();
        return i + 1;
      }
      lineBytes = 0;
    }
    if (chunk.length - at >= room) return TOO_LARGE;
    this.#lineBytes = lineBytes;
    this.#keep(chunk, at, chunk.length);
    return PARTIAL;
  }

  reset(): void {
    this.#bytes = undefined;
    this.#length = this.#lineBytes = 0;
  }

  #keep(chunk: Uint8Array, from: number, to: number): void {
    if (this.#length === 0) this.#collected++;
    const length = this.#length + to - from;
    if (!this.#bytes || this.#bytes.length < length) {
      const larger = new Uint8Array(Math.max(FIRST_BYTES, 2 * length));
      if (this.#bytes) larger.set(this.#bytes.subarray(0, this.#length));
      this.#bytes = larger;
    }
    this.#bytes.set(chunk.subarray(from, to), this.#length);
    this.#length = length;
  }
}
