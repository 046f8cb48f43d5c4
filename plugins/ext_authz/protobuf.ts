/**
 * The part of Protocol Buffers that `CheckRequest` and `CheckResponse` need: numbers and length-delimited
 * fields.
 *
 * @module
 */

import type { Bytes } from "../../src/plugin/api.ts";

const encoder = new TextEncoder();

/** One or more encoded fields; empty values are left out, as in proto3. */
export type ProtobufField = readonly Uint8Array[];

export function text(field: number, value: string): ProtobufField {
  return value === "" ? [] : bytes(field, encoder.encode(value));
}

export function bytes(field: number, ...value: readonly Uint8Array[]): ProtobufField {
  const length = lengthOf(value);
  return length === 0 ? [] : [tag(field, 2), varint(length), ...value];
}

/** `value`: up to 53 bits, or -1. */
export function integer(field: number, value: number): ProtobufField {
  return value === 0 ? [] : [tag(field, 0), varint(value)];
}

/** An embedded message, which may be empty. Its parts are not copied. */
export function message(field: number, ...parts: readonly ProtobufField[]): ProtobufField {
  const content = parts.flat();
  return [tag(field, 2), varint(lengthOf(content)), ...content];
}

export function joined(...parts: readonly ProtobufField[]): Bytes {
  const all = parts.flat();
  const made = new Uint8Array(lengthOf(all));
  let at = 0;
  for (const chunk of all) {
    made.set(chunk, at);
    at += chunk.length;
  }
  return made;
}

function lengthOf(chunks: readonly Uint8Array[]): number {
  return chunks.reduce((sum, { length }) => sum + length, 0);
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

/** A field of a message: a number, or length-delimited bytes. */
export interface Field {
  readonly number: number;
  readonly value: number | Uint8Array;
}

/** More than an answer within the size limit can use. */
const MAX_FIELDS = 4_096;

/** Throws a RangeError if fields are truncated or invalid. */
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
    if (wireType === 0) fields.push({ number: field, value: number() });
    else if (wireType === 2) fields.push({ number: field, value: taken(number()) });
    else if (wireType === 1) taken(8);
    else if (wireType === 5) taken(4);
    else throw new RangeError(`a field of the unknown kind ${wireType}`);
  }
  return fields;
}

/** The last number with the field number `wanted`; 0: there is none. Fields of another type are ignored. */
export function numberIn(fields: readonly Field[], wanted: number): number {
  const found = fields.findLast(({ number, value }) =>
    number === wanted && typeof value === "number"
  );
  return typeof found?.value === "number" ? found.value : 0;
}

/** All length-delimited values with the field number `wanted`, in order. */
export function allIn(fields: readonly Field[], wanted: number): readonly Uint8Array[] {
  return fields.flatMap(({ number, value }) =>
    number === wanted && value instanceof Uint8Array ? [value] : []
  );
}

/** The fields of an embedded message; repeated ones are merged. `undefined`: there is none. */
export function messageIn(
  fields: readonly Field[],
  wanted: number,
): readonly Field[] | undefined {
  const all = allIn(fields, wanted);
  return all.length === 0 ? undefined : fieldsOf(joined(all));
}
