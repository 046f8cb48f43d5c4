/**
 * Key derivation of PKCS#12, for its MAC and its older encryptions. Computed here, so that its rounds are
 * bounded for each key and for all keys of a file.
 *
 * @module
 */

import { createHash } from "node:crypto";
import { type Effort, joined } from "./encryption.ts";
import { fail } from "./source_bytes.ts";

export const REEXPORT: string =
  "write it anew: openssl pkcs12 -legacy -in OLD -nodes | openssl pkcs12 -export -out NEW";
/** These rounds run in JavaScript, not in the TLS library; OpenSSL writes 2,048, Java 10,000. */
export const ROUND_LIMIT = 100_000;

export interface HashFacts {
  readonly name: string;
  readonly blockBytes: number;
}

/** RFC 7292 B.2: `purpose` 1 gives keys, 2 IVs, 3 keys of MACs. */
export function derive(
  options: {
    readonly purpose: 1 | 2 | 3;
    readonly hash: HashFacts;
    readonly salt: Uint8Array;
    readonly rounds: number;
    readonly effort: Effort;
    readonly bytes: number;
    readonly password: Uint8Array;
    readonly what: string;
  },
): Uint8Array {
  const { purpose, hash, salt, rounds, effort, bytes, password, what } = options;
  if (rounds < 1 || rounds > ROUND_LIMIT) {
    return fail(what, `it asks for ${rounds} rounds, more than ${ROUND_LIMIT}; ${REEXPORT}`);
  }
  if (salt.length > 1024) return fail(what, "its salt is too long");
  const { blockBytes } = hash;
  const diversifier = new Uint8Array(blockBytes).fill(purpose);
  const mixed = joined(repeated(salt, blockBytes), repeated(password, blockBytes));
  const derived: number[] = [];
  while (derived.length < bytes) {
    effort.left -= rounds;
    if (effort.left < 0) {
      return fail(what, `its parts ask for too many rounds together; ${REEXPORT}`);
    }
    let last = createHash(hash.name).update(diversifier).update(mixed).digest();
    for (let round = 1; round < rounds; round++) {
      last = createHash(hash.name).update(last).digest();
    }
    derived.push(...last);
    const addend = repeated(last, blockBytes).subarray(0, blockBytes);
    for (let at = 0; at < mixed.length; at += blockBytes) {
      addOneMore(mixed.subarray(at, at + blockBytes), addend);
    }
  }
  return Uint8Array.from(derived.slice(0, bytes));
}

/** `block = block + addend + 1`, big-endian, the carry out lost. */
function addOneMore(block: Uint8Array, addend: Uint8Array): void {
  let carry = 1;
  for (let at = block.length - 1; at >= 0; at--) {
    carry += (block[at] ?? 0) + (addend[at] ?? 0);
    block[at] = carry & 0xff;
    carry >>= 8;
  }
}

/** Copies of `bytes` to whole blocks; no bytes give no block. */
function repeated(bytes: Uint8Array, blockBytes: number): Uint8Array {
  const length = blockBytes * Math.ceil(bytes.length / blockBytes);
  return Uint8Array.from({ length }, (_, at) => bytes[at % bytes.length] ?? 0);
}

/** UTF-16, big-endian, with its final zero. */
export function bmpOf(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length * 2 + 2);
  for (let at = 0; at < text.length; at++) {
    bytes[at * 2] = text.charCodeAt(at) >> 8;
    bytes[at * 2 + 1] = text.charCodeAt(at) & 0xff;
  }
  return bytes;
}
