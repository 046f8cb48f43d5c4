/**
 * Octets as characters of the same number, by what both runtimes do natively.
 *
 * @module
 */

import { Buffer } from "node:buffer";

/** Methods of a Buffer that work on any Uint8Array; the types know neither fact. */
interface NativeLatin1 {
  latin1Slice(this: Uint8Array, from: number, to: number): string;
  latin1Write(this: Uint8Array, text: string, at: number): number;
}
const native = Buffer.prototype as unknown as NativeLatin1;

export function latin1(bytes: Uint8Array, from: number, to: number): string {
  return native.latin1Slice.call(bytes, from, to);
}

/** Characters above 0xFF lose what does not fit. Texts that short are written faster one by one. */
export function writeLatin1(bytes: Uint8Array, text: string, at: number): void {
  if (text.length > 24) return void native.latin1Write.call(bytes, text, at);
  for (let i = 0; i < text.length; i++) bytes[at + i] = text.charCodeAt(i);
}
