/** Octets as characters of the same number, by native functions of both runtimes. @module */

import { Buffer } from "node:buffer";

/** Methods of a Buffer that work on any Uint8Array, which the types do not know. */
interface NativeLatin1 {
  latin1Slice(this: Uint8Array, from: number, to: number): string;
  latin1Write(this: Uint8Array, text: string, at: number): number;
  indexOf(this: Uint8Array, bytes: Uint8Array, from: number): number;
  copy(this: Uint8Array, to: Uint8Array, at: number, from: number, end: number): number;
}
const native = Buffer.prototype as unknown as NativeLatin1;
const EMPTY_LINE = Buffer.from("\r\n\r\n");

export function latin1(bytes: Uint8Array, from: number, to: number): string {
  return native.latin1Slice.call(bytes, from, to);
}

/** Characters above 0xFF lose their upper bits: check before. */
export function writeLatin1(bytes: Uint8Array, text: string, at: number): number {
  return native.latin1Write.call(bytes, text, at);
}

/** Position of the empty line that ends a head (with the end of the line before it); -1: there is none. */
export function emptyLineIn(bytes: Uint8Array, from: number): number {
  return native.indexOf.call(bytes, EMPTY_LINE, from);
}

/** Up to this size a copy costs less than a view, which has to make all of its memory shareable. */
const SMALL_BYTES = 1024;

/** A part of `bytes` that the caller may keep, as a view or a copy. */
export function partOf(bytes: Uint8Array, from: number, to: number): Uint8Array {
  const length = to - from;
  if (length === bytes.length) return bytes;
  if (length > SMALL_BYTES) return bytes.subarray(from, to);
  const part = new Uint8Array(length);
  native.copy.call(bytes, part, 0, from, to);
  return part;
}

/** A shorter value costs as much to look up as to write. */
const LONG = 1024;
/** Control characters, and characters that latin1 cannot encode; TAB is allowed in a value. */
// deno-lint-ignore no-control-regex
const UNLAWFUL = /[\0-\x08\x0a-\x1f\x7f\u0100-\uffff]/;

const READY = new Map<string, Uint8Array>();

/** Whether all of `text` may be part of a line of a head. */
export function isLawful(text: string): boolean {
  return !UNLAWFUL.test(text);
}

/** Does nothing for a value that is short or not allowed in a head. */
export function makeReady(value: string): void {
  if (value.length < LONG || !isLawful(value)) return;
  const octets = new Uint8Array(value.length);
  writeLatin1(octets, value, 0);
  READY.set(value, octets);
}

export function forgetReady(value: string): void {
  READY.delete(value);
}

/** Octets of a registered value, which is valid; undefined: the value has to be checked. */
export function readyOctets(value: string): Uint8Array | undefined {
  return value.length < LONG ? undefined : READY.get(value);
}
