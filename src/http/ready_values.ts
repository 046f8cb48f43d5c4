/**
 * Values that are long, stand in one head after another and are made by us: looked at and turned into
 * octets once. Whoever makes such a value says so here, and says when it is used no more.
 *
 * @module
 */

import { writeLatin1 } from "./latin1.ts";

/** Shorter ones cost as much to look up as to write. */
const LONG = 1024;
/** No control character, nothing that latin1 cannot say; TAB is lawful within a value. */
// deno-lint-ignore no-control-regex
const UNLAWFUL = /[\0-\x08\x0a-\x1f\x7f\u0100-\uffff]/;

const READY = new Map<string, Uint8Array>();

/** Whether all of `text` may stand within a line of a head. */
export function isLawful(text: string): boolean {
  return !UNLAWFUL.test(text);
}

/** Does nothing for one that is short or may not stand in a head. */
export function makeReady(value: string): void {
  if (value.length < LONG || !isLawful(value)) return;
  const octets = new Uint8Array(value.length);
  writeLatin1(octets, value, 0);
  READY.set(value, octets);
}

export function forgetReady(value: string): void {
  READY.delete(value);
}

/** Octets of a value that is ready, and lawful with it; undefined: it has to be looked at. */
export function readyOctets(value: string): Uint8Array | undefined {
  return value.length < LONG ? undefined : READY.get(value);
}
