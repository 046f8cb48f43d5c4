/**
 * Octets as characters of the same number, by what both runtimes do natively: a head is read and written
 * as one text.
 *
 * @module
 */

import { Buffer } from "node:buffer";

/** Methods of a Buffer that work on any Uint8Array; the types know neither fact. */
interface NativeLatin1 {
  latin1Slice(this: Uint8Array, from: number, to: number): string;
  latin1Write(this: Uint8Array, text: string, at: number): number;
  indexOf(this: Uint8Array, bytes: Uint8Array, from: number): number;
}
const native = Buffer.prototype as unknown as NativeLatin1;
const EMPTY_LINE = Buffer.from("\r\n\r\n");

export function latin1(bytes: Uint8Array, from: number, to: number): string {
  return native.latin1Slice.call(bytes, from, to);
}

/** Characters above 0xFF lose what does not fit: look before. */
export function writeLatin1(bytes: Uint8Array, text: string, at: number): number {
  return native.latin1Write.call(bytes, text, at);
}

/** Where the empty line that ends a head begins (with the end of the line before it); -1: nowhere. */
export function emptyLineIn(bytes: Uint8Array, from: number): number {
  return native.indexOf.call(bytes, EMPTY_LINE, from);
}
