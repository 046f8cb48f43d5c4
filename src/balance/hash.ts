/**
 * Hashing for ring and maglev tables: MurmurHash3 (x86, 32 bit) of UTF-8 text. Fast and well spread;
 * no protection against chosen texts.
 *
 * @module
 */

const encoder = new TextEncoder();

/** 32-bit hash of `text`, in 0..2^32-1. */
export function hashText(text: string, seed = 0): number {
  const length = text.length;
  let hash = seed | 0;
  let index = 0;
  for (; index + 4 <= length; index += 4) {
    const a = text.charCodeAt(index);
    const b = text.charCodeAt(index + 1);
    const c = text.charCodeAt(index + 2);
    const d = text.charCodeAt(index + 3);
    // Addresses are ASCII, where characters are bytes; other texts are encoded first.
    if ((a | b | c | d) > 0x7f) return hashBytes(encoder.encode(text), seed);
    hash = addBlock(hash, a | (b << 8) | (c << 16) | (d << 24));
  }
  let tail = 0;
  for (let shift = 0; index < length; index++, shift += 8) {
    const unit = text.charCodeAt(index);
    if (unit > 0x7f) return hashBytes(encoder.encode(text), seed);
    tail |= unit << shift;
  }
  return mix32(hash ^ scramble(tail) ^ length);
}

/** Spreads every bit of a 32-bit number over all bits; a bijection. Result in 0..2^32-1. */
export function mix32(value: number): number {
  let mixed = value | 0;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

function hashBytes(bytes: Uint8Array, seed: number): number {
  const length = bytes.length;
  let hash = seed | 0;
  let tail = 0;
  for (let index = 0; index < length; index++) {
    const shift = (index & 3) * 8;
    tail |= (bytes[index] ?? 0) << shift;
    if (shift !== 24) continue;
    hash = addBlock(hash, tail);
    tail = 0;
  }
  return mix32(hash ^ scramble(tail) ^ length);
}

function addBlock(hash: number, block: number): number {
  const mixed = hash ^ scramble(block);
  return (Math.imul((mixed << 13) | (mixed >>> 19), 5) + 0xe6546b64) | 0;
}

function scramble(block: number): number {
  const mixed = Math.imul(block, 0xcc9e2d51);
  return Math.imul((mixed << 15) | (mixed >>> 17), 0x1b873593);
}
