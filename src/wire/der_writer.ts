/** A writer of DER for certificates and certificate requests. @module */

import { TAG } from "./der.ts";

/** One element: tag, minimal length, then `parts` joined. */
export function derElement(tag: number, ...parts: readonly Uint8Array[]): Uint8Array {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const head = [tag, ...lengthBytes(length)];
  const out = new Uint8Array(head.length + length);
  out.set(head);
  let at = head.length;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

export function derSequence(...parts: readonly Uint8Array[]): Uint8Array {
  return derElement(TAG.sequence, ...parts);
}

/** A non-negative integer given as big-endian bytes; leading zeros are made minimal. */
export function derUnsigned(bytes: Uint8Array): Uint8Array {
  let from = 0;
  while (from < bytes.length && bytes[from] === 0) from++;
  const rest = bytes.subarray(from);
  const first = rest[0] ?? 0;
  if (rest.length === 0) return derElement(TAG.integer, new Uint8Array(1));
  return first & 0x80
    ? derElement(TAG.integer, new Uint8Array(1), rest)
    : derElement(TAG.integer, rest);
}

/** A non-negative integer below 2^53. */
export function derNumber(value: number): Uint8Array {
  const bytes: number[] = [];
  for (let rest = value; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256);
  return derUnsigned(Uint8Array.from(bytes));
}

export function derBoolean(value: boolean): Uint8Array {
  return derElement(TAG.boolean, Uint8Array.of(value ? 0xff : 0));
}

/** Dotted text: `2.5.29.17`. */
export function derOid(dotted: string): Uint8Array {
  const [first = 0, second = 0, ...arcs] = dotted.split(".").map(Number);
  const bytes: number[] = [];
  for (const arc of [first * 40 + second, ...arcs]) {
    const group = [arc % 128];
    for (let rest = Math.floor(arc / 128); rest > 0; rest = Math.floor(rest / 128)) {
      group.unshift(0x80 | rest % 128);
    }
    bytes.push(...group);
  }
  return derElement(TAG.oid, Uint8Array.from(bytes));
}

/** A bit string of whole bytes. */
export function derBits(bytes: Uint8Array): Uint8Array {
  return derElement(TAG.bitString, new Uint8Array(1), bytes);
}

/** A bit string of named bits: bit `n` is set for every `n` given; trailing zeros are cut. */
export function derNamedBits(bits: readonly number[]): Uint8Array {
  const highest = Math.max(-1, ...bits);
  const bytes = new Uint8Array((highest >> 3) + 1);
  for (const bit of bits) bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) | 0x80 >> (bit & 7);
  const unused = highest < 0 ? 0 : 7 - (highest & 7);
  return derElement(TAG.bitString, Uint8Array.of(unused), bytes);
}

export function derOctets(bytes: Uint8Array): Uint8Array {
  return derElement(TAG.octetString, bytes);
}

/** ASCII text under any string tag, context tags included. */
export function derText(tag: number, text: string): Uint8Array {
  return derElement(tag, new TextEncoder().encode(text));
}

/** Seconds precision; UTCTime until 2049 and GeneralizedTime after (RFC 5280 4.1.2.5). */
export function derTime(ms: number): Uint8Array {
  const digits = new Date(ms).toISOString().replace(/\.\d+/, "").replace(/[-:T]/g, "");
  const year = Number(digits.slice(0, 4));
  return year >= 1950 && year < 2050
    ? derText(TAG.utcTime, digits.slice(2))
    : derText(TAG.generalizedTime, digits);
}

function lengthBytes(length: number): number[] {
  if (length < 0x80) return [length];
  const bytes: number[] = [];
  for (let rest = length; rest > 0; rest >>>= 8) bytes.unshift(rest & 0xff);
  return [0x80 | bytes.length, ...bytes];
}
