/**
 * HTTP/2 byte by byte, for tests that speak as a peer of their own: frames to bytes, and bytes to words.
 *
 * @module
 */

import { settle } from "../clock/clock.ts";
import { bytes } from "./http2_pair.ts";
import type { MemoryConnection } from "../engine/memory_pair.ts";
import { HpackDecoder } from "../../../src/http/h2/hpack/decoder.ts";
import { FIELD_ROOM_BYTES, HpackEncoder } from "../../../src/http/h2/hpack/encoder.ts";

export const TYPES: readonly string[] = [
  "DATA",
  "HEADERS",
  "PRIORITY",
  "RST_STREAM",
  "SETTINGS",
  "PUSH_PROMISE",
  "PING",
  "GOAWAY",
  "WINDOW_UPDATE",
  "CONTINUATION",
];
export const END_STREAM = 1;
export const ACK = 1;
export const END_HEADERS = 4;
export const PADDED = 8;

export function join(...parts: readonly Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(parts));
}

export function frame(
  type: string | number,
  flags: number,
  id: number,
  payload: Uint8Array | readonly number[] = [],
): Uint8Array {
  const { length } = payload;
  const number = typeof type === "number" ? type : TYPES.indexOf(type);
  return join(
    Uint8Array.of(length >> 16, length >> 8, length, number, flags, ...u32(id)),
    Uint8Array.from(payload),
  );
}

export function u32(value: number): number[] {
  return [value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255];
}

export function settings(
  ...entries: readonly (readonly [name: number, value: number])[]
): Uint8Array {
  return frame("SETTINGS", 0, 0, entries.flatMap(([name, value]) => [0, name, ...u32(value)]));
}

export const PREFACE: Uint8Array = bytes("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

export type Pairs = readonly (readonly [name: string, value: string])[];

export const GET: Pairs = [
  [":method", "GET"],
  [":scheme", "http"],
  [":path", "/"],
  [":authority", "db.example"],
];
export const POST: Pairs = [[":method", "POST"], ...GET.slice(1)];

/** A block without use of a table, so that it may be sent in any order. */
export function block(fields: Pairs): Uint8Array {
  const octets: number[] = [];
  const text = (value: string) => {
    const length = value.length;
    if (length < 127) octets.push(length);
    else octets.push(127, ((length - 127) & 127) | 128, (length - 127) >> 7);
    for (const character of value) octets.push(character.charCodeAt(0));
  };
  for (const [name, value] of fields) {
    octets.push(0);
    text(name);
    text(value);
  }
  return Uint8Array.from(octets);
}

export function headers(id: number, fields: Pairs, flags = END_STREAM): Uint8Array {
  return frame("HEADERS", flags | END_HEADERS, id, block(fields));
}

/** A block as an encoder makes it. */
export function encoded(encoder: HpackEncoder, fields: Pairs): Uint8Array {
  const room = fields.reduce((sum, [name, value]) => sum + name.length + value.length, 0);
  const to = new Uint8Array(room + (fields.length + 1) * FIELD_ROOM_BYTES);
  let at = encoder.begin(to, 0);
  for (const [name, value] of fields) at = encoder.field(name, value, to, at);
  return to.slice(0, at);
}

/** Made so often. */
export function repeat<T>(count: number, make: (i: number) => T): T[] {
  return Array.from({ length: count }, (_, i) => make(i));
}

/** Tells frames in words: `HEADERS 1 end :status=200`, `GOAWAY 0 last=1 code=0`. */
export class FrameWords {
  readonly words: string[] = [];
  #left: Uint8Array = new Uint8Array();
  readonly #decoder = new HpackDecoder();

  take(chunk: Uint8Array): void {
    this.#left = join(this.#left, chunk);
    while (this.#left.length >= 9) {
      const view = new DataView(this.#left.buffer);
      const size = view.getUint32(0) >>> 8;
      if (this.#left.length < 9 + size) return;
      this.words.push(this.#tell(view, this.#left.subarray(9, 9 + size)));
      this.#left = this.#left.slice(9 + size);
    }
  }

  #tell(view: DataView, payload: Uint8Array): string {
    const type = TYPES[view.getUint8(3)] ?? String(view.getUint8(3));
    const flags = view.getUint8(4);
    const words = [type, String(view.getUint32(5))];
    const at = (offset: number) => view.getUint32(9 + offset);
    switch (type) {
      case "DATA":
        words.push(String(payload.length));
        if (flags & END_STREAM) words.push("end");
        break;
      case "HEADERS": {
        if (flags & END_STREAM) words.push("end");
        if (!(flags & END_HEADERS)) return [...words, "more"].join(" ");
        this.#decoder.decode(payload, 0, payload.length, {
          onField: ({ text }, value) => words.push(`${text}=${value}`),
        });
        break;
      }
      case "RST_STREAM":
      case "WINDOW_UPDATE":
        words.push(String(at(0)));
        break;
      case "GOAWAY":
        words.push(`last=${at(0)}`, `code=${at(4)}`);
        break;
      case "SETTINGS":
      case "PING":
        if (flags & ACK) words.push("ack");
        break;
    }
    return words.join(" ");
  }
}

/** A peer that sends the test's frames and records those it gets. */
export class RawPeer {
  readonly frames: FrameWords = new FrameWords();
  /** `reset` where the other side broke it. */
  closed: "no" | "closed" | "reset" = "no";
  readonly #stream: MemoryConnection;
  /** A server reads the client's preface first. */
  #prefaceLeft: number;

  constructor(stream: MemoryConnection, options: { readonly server?: boolean } = {}) {
    this.#stream = stream;
    this.#prefaceLeft = options.server ? PREFACE.length : 0;
    stream.events = {
      onData: (chunk) => {
        const skip = Math.min(this.#prefaceLeft, chunk.length);
        this.#prefaceLeft -= skip;
        this.frames.take(chunk.subarray(skip));
      },
      onEnd: () => stream.end(),
      onDrain: () => {},
      onClose: (reset) => void (this.closed = reset ? "reset" : "closed"),
    };
  }

  /** Sends it, and what that causes happens. */
  async send(...parts: readonly Uint8Array[]): Promise<void> {
    this.#stream.write(join(...parts));
    await settle();
  }

  /** Reads nothing more. */
  stop(): void {
    this.#stream.pause();
  }

  /** Reads again. */
  goOn(): void {
    this.#stream.resume();
  }

  /** Breaks the connection. */
  leave(): void {
    this.#stream.reset();
  }

  /** Returns the frames since the last call. */
  take(): string[] {
    return this.frames.words.splice(0);
  }
}
