/** A strict reader of DER. Failures are `identity_invalid`: only certificates are read with it. @module */

import { ProxyError } from "../base/mod.ts";

export const TAG = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  null: 0x05,
  oid: 0x06,
  utf8String: 0x0c,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  set: 0x31,
} as const;

/** Context-specific tag, as `[3]` constructed of a certificate's extensions. */
export function contextTag(number: number, form: "primitive" | "constructed"): number {
  return (form === "constructed" ? 0xa0 : 0x80) | number;
}

/** Nesting deeper than this is refused; a certificate needs 8. */
const DEPTH_LIMIT = 16;

/** One element. `raw` includes tag and length; both are views, not copies. */
export interface DerElement {
  readonly tag: number;
  readonly raw: Uint8Array;
  readonly body: Uint8Array;
}

export class DerReader {
  readonly #bytes: Uint8Array;
  readonly #depth: number;
  #at = 0;

  constructor(bytes: Uint8Array, depth = 0) {
    if (depth > DEPTH_LIMIT) fail(`nested deeper than ${DEPTH_LIMIT} levels`);
    this.#bytes = bytes;
    this.#depth = depth;
  }

  get done(): boolean {
    return this.#at >= this.#bytes.length;
  }

  /** The next element, whatever its tag; `what` names it in the error. */
  any(what: string): DerElement {
    const bytes = this.#bytes;
    const start = this.#at;
    const tag = bytes[start];
    if (tag === undefined) return fail(`${what} is missing`);
    if ((tag & 0x1f) === 0x1f) return fail(`${what} has a long-form tag`);
    const { length, bodyAt } = lengthAt(bytes, start + 1, what);
    const end = bodyAt + length;
    if (end > bytes.length) return fail(`${what} is cut short`);
    this.#at = end;
    return { tag, raw: bytes.subarray(start, end), body: bytes.subarray(bodyAt, end) };
  }

  read(tag: number, what: string): DerElement {
    if (this.done) return fail(`${what} is missing`);
    if (this.#bytes[this.#at] !== tag) return fail(`${what} has an unexpected type`);
    return this.any(what);
  }

  optional(tag: number, what: string): DerElement | undefined {
    return this.#bytes[this.#at] === tag ? this.any(what) : undefined;
  }

  /** A reader over the elements inside the next one, which must have `tag`. */
  enter(tag: number, what: string): DerReader {
    return this.inside(this.read(tag, what));
  }

  inside(element: DerElement): DerReader {
    return new DerReader(element.body, this.#depth + 1);
  }

  /** Refuses elements that were not read. */
  end(what: string): void {
    if (!this.done) fail(`${what} has trailing bytes`);
  }
}

function lengthAt(
  bytes: Uint8Array,
  at: number,
  what: string,
): { readonly length: number; readonly bodyAt: number } {
  const first = bytes[at];
  if (first === undefined) return fail(`${what} is cut short`);
  if (first < 0x80) return { length: first, bodyAt: at + 1 };
  const count = first & 0x7f;
  if (count === 0) return fail(`${what} has an indefinite length`);
  if (count > 3) return fail(`${what} is too long`);
  let length = 0;
  for (let index = 1; index <= count; index++) {
    const byte = bytes[at + index];
    if (byte === undefined) return fail(`${what} is cut short`);
    length = length * 256 + byte;
  }
  const minimal = length >= 0x80 && length >= 2 ** (8 * (count - 1));
  if (!minimal) return fail(`${what} has a length that is not minimal`);
  return { length, bodyAt: at + 1 + count };
}

/** DER allows only 0x00 and 0xff. */
export function booleanOf(element: DerElement, what: string): boolean {
  const byte = element.body[0];
  if (element.body.length !== 1 || (byte !== 0 && byte !== 0xff)) {
    return fail(`${what} is not a boolean`);
  }
  return byte === 0xff;
}

/** The two's-complement bytes of an integer, which must be minimal and at most `limitBytes`. */
export function integerOf(element: DerElement, what: string, limitBytes = 1024): Uint8Array {
  const { body } = element;
  const [first, second = 0] = body;
  if (first === undefined || body.length > limitBytes) return fail(`${what} has a bad size`);
  const padded = body.length > 1 &&
    ((first === 0 && second < 0x80) || (first === 0xff && second >= 0x80));
  if (padded) return fail(`${what} is not minimal`);
  return body;
}

/** A non-negative integer below 2^31. */
export function smallIntegerOf(element: DerElement, what: string): number {
  const bytes = integerOf(element, what, 4);
  if ((bytes[0] ?? 0) >= 0x80) return fail(`${what} is negative`);
  return bytes.reduce((value, byte) => value * 256 + byte, 0);
}

/** Dotted text of an object identifier; arcs above 2^53 are refused. */
export function oidOf(element: DerElement, what: string): string {
  const { body } = element;
  if (body.length === 0 || body.length > 64) return fail(`${what} has a bad size`);
  const arcs: number[] = [];
  let arc = 0;
  let started = false;
  for (const byte of body) {
    if (!started && byte === 0x80) return fail(`${what} is not minimal`);
    arc = arc * 128 + (byte & 0x7f);
    if (arc > Number.MAX_SAFE_INTEGER) return fail(`${what} has an arc that is too large`);
    started = byte >= 0x80;
    if (started) continue;
    if (arcs.length === 0) {
      const first = Math.min(2, Math.floor(arc / 40));
      arcs.push(first, arc - first * 40);
    } else arcs.push(arc);
    arc = 0;
  }
  if (started) return fail(`${what} is cut short`);
  return arcs.join(".");
}

export interface BitString {
  readonly unusedBits: number;
  readonly bytes: Uint8Array;
}

/** A bit string; its unused bits must be zero. */
export function bitStringOf(element: DerElement, what: string): BitString {
  const unusedBits = element.body[0];
  const bytes = element.body.subarray(1);
  const last = bytes[bytes.length - 1];
  if (unusedBits === undefined || unusedBits > 7 || (last === undefined && unusedBits > 0)) {
    return fail(`${what} is not a bit string`);
  }
  if (last !== undefined && (last & ((1 << unusedBits) - 1)) !== 0) {
    return fail(`${what} has unused bits that are set`);
  }
  return { unusedBits, bytes };
}

/** Milliseconds since 1970 of a UTCTime or GeneralizedTime in the form of RFC 5280 4.1.2.5. */
export function timeOf(element: DerElement, what: string): number {
  const text = asciiOf(element.body, what);
  const utc = element.tag === TAG.utcTime;
  if (!utc && element.tag !== TAG.generalizedTime) return fail(`${what} is not a time`);
  const match =
    (utc ? /^(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/ : /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/)
      .exec(text);
  if (!match) return fail(`${what} is not a time`);
  const numbers = match.slice(1).map(Number);
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = numbers;
  const fullYear = !utc ? year : year >= 50 ? 1900 + year : 2000 + year;
  const date = new Date(0);
  date.setUTCFullYear(fullYear, month - 1, day);
  date.setUTCHours(hour, minute, second);
  // A field out of range (month 13, 30 February, second 60) rolls over into another date.
  const same = date.getUTCFullYear() === fullYear && date.getUTCMonth() === month - 1 &&
    date.getUTCDate() === day && date.getUTCHours() === hour &&
    date.getUTCMinutes() === minute && date.getUTCSeconds() === second;
  return same ? date.getTime() : fail(`${what} is not a time`);
}

/** Text of printable ASCII bytes; anything else, NUL included, is refused. */
export function asciiOf(bytes: Uint8Array, what: string): string {
  let text = "";
  for (const byte of bytes) {
    if (byte < 0x20 || byte > 0x7e) return fail(`${what} has a byte that is not printable ASCII`);
    text += String.fromCharCode(byte);
  }
  return text;
}

function fail(fact: string): never {
  throw new ProxyError("identity_invalid", `Cannot read certificate: ${fact}`);
}
