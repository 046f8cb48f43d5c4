/**
 * As much of Protocol Buffers as a question about a request and its answer need: numbers, and what has a
 * length.
 *
 * @module
 */

import type { Bytes } from "../../src/plugin/api.ts";

const encoder = new TextEncoder();

/** One field, or one after the other; what is empty is left out, as proto3 has it. */
export type Part = readonly Uint8Array[];

export function text(field: number, value: string): Part {
  return value === "" ? [] : bytes(field, encoder.encode(value));
}

export function bytes(field: number, value: Uint8Array): Part {
  return value.length === 0 ? [] : [tag(field, 2), varint(value.length), value];
}

/** `value`: of up to 53 bits, or -1. */
export function integer(field: number, value: number): Part {
  return value === 0 ? [] : [tag(field, 0), varint(value)];
}

/** A message within another, which may be empty. */
export function message(field: number, ...parts: readonly Part[]): Part {
  const content = joined(...parts);
  return [tag(field, 2), varint(content.length), content];
}

export function joined(...parts: readonly Part[]): Bytes {
  const all = parts.flat();
  const made = new Uint8Array(all.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const chunk of all) {
    made.set(chunk, at);
    at += chunk.length;
  }
  return made;
}

function tag(field: number, wireType: number): Uint8Array {
  return varint(field * 8 + wireType);
}

function varint(value: number): Uint8Array {
  let rest = BigInt.asUintN(64, BigInt(value));
  const octets: number[] = [];
  for (; rest > 0x7fn; rest >>= 7n) octets.push(Number(rest & 0x7fn) | 0x80);
  octets.push(Number(rest));
  return Uint8Array.from(octets);
}

/** Of a message, in their order. A number's value is 0 where it is none, and its bytes are empty. */
export interface Field {
  readonly number: number;
  readonly value: number;
  readonly bytes: Uint8Array;
}

const EMPTY = new Uint8Array();
/** More than an answer of the size that is taken can make use of. */
const MAX_FIELDS = 4_096;

/** Throws a RangeError where they are cut, or make no sense. */
export function fieldsOf(content: Uint8Array): readonly Field[] {
  const fields: Field[] = [];
  let at = 0;
  const number = (): number => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const octet = content[at++];
      if (octet === undefined) throw new RangeError("it is cut short");
      value |= BigInt(octet & 0x7f) << shift;
      if (octet < 0x80) return Number(BigInt.asUintN(64, value));
    }
    throw new RangeError("a number of more than ten bytes");
  };
  const taken = (length: number): Uint8Array => {
    if (length > content.length - at) throw new RangeError("it is cut short");
    at += length;
    return content.subarray(at - length, at);
  };
  while (at < content.length) {
    if (fields.length >= MAX_FIELDS) throw new RangeError(`more than ${MAX_FIELDS} fields`);
    const key = number();
    const [field, wireType] = [Math.floor(key / 8), key % 8];
    if (field === 0) throw new RangeError("a field without a number");
    if (wireType === 0) fields.push({ number: field, value: number(), bytes: EMPTY });
    else if (wireType === 2) fields.push({ number: field, value: 0, bytes: taken(number()) });
    else if (wireType === 1) taken(8);
    else if (wireType === 5) taken(4);
    else throw new RangeError(`a field of the unknown kind ${wireType}`);
  }
  return fields;
}
