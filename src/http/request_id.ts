/**
 * `X-Request-Id` connects the log lines of one request. An id that came with the request is kept.
 *
 * @module
 */

import { fieldOf, type Fields, setField } from "./head.ts";

/** Ids made at a time: one call for random bytes and one text for all of them. */
const POOL = 128;
const ID_BYTES = 16;
const ID_CHARS = 36;

/** Fills with random bytes that cannot be predicted. */
export type RandomFill = (bytes: Uint8Array<ArrayBuffer>) => void;

const systemFill: RandomFill = (bytes) => {
  crypto.getRandomValues(bytes);
};

/** Makes version 4 UUIDs (RFC 9562 5.4), as Envoy does. */
export class RequestIds {
  readonly #fill: RandomFill;
  readonly #random = new Uint8Array(POOL * ID_BYTES);
  readonly #characters = new Uint8Array(POOL * ID_CHARS);
  readonly #decoder = new TextDecoder("latin1");
  #pool = "";
  #at = 0;

  constructor(fill: RandomFill = systemFill) {
    this.#fill = fill;
  }

  next(): string {
    if (this.#at >= this.#pool.length) this.#refill();
    const from = this.#at;
    this.#at = from + ID_CHARS;
    return this.#pool.slice(from, this.#at);
  }

  /** The id of a request; adds one where it has none. */
  ensure(fields: Fields): string {
    const given = fieldOf(fields, "x-request-id");
    if (given) return given;
    const id = this.next();
    setField(fields, "x-request-id", id);
    return id;
  }

  #refill(): void {
    const random = this.#random;
    const characters = this.#characters;
    this.#fill(random);
    let to = 0;
    for (let i = 0; i < random.length; i++) {
      const place = i % ID_BYTES;
      let byte = random[i] ?? 0;
      // Version and variant.
      if (place === 6) byte = (byte & 0x0f) | 0x40;
      else if (place === 8) byte = (byte & 0x3f) | 0x80;
      if (place === 4 || place === 6 || place === 8 || place === 10) characters[to++] = 0x2d;
      characters[to++] = HEX.charCodeAt(byte >> 4);
      characters[to++] = HEX.charCodeAt(byte & 0x0f);
    }
    this.#pool = this.#decoder.decode(characters);
    this.#at = 0;
  }
}

const HEX = "0123456789abcdef";
