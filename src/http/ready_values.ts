/**
 * Keeps the octets of long values that we make and write into many heads, so that each value is checked and
 * encoded once. The owner of a value registers it here, and removes it when it is no longer used.
 *
 * @module
 */

import { writeLatin1 } from "./latin1.ts";

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
