/**
 * HPACK's Huffman code (RFC 7541 5.2, appendix B). The code is canonical: the codes of one length count up
 * in the order of their octets, and longer codes continue where shorter ones ended, so that the lengths
 * define all codes. Decoding takes four bits a step: no code is shorter, so that a step ends at most one
 * octet.
 *
 * @module
 */

/** Code length of each octet in bits; the last one is the end of string. */
// deno-fmt-ignore
const LENGTHS: readonly number[] = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
  28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
  6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
  5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
  13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
  7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
  15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
  6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
  20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
  24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
  22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
  21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
  26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
  19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
  20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
  26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
  30,
];
const END_OF_STRING = 256;

const CODES = canonicalCodes();

/** Flag of a {@link STEPS} entry: an octet ends here, in the low eight bits. */
const EMITS = 1 << 8;
/** The bits since the last octet may be padding: all ones, fewer than eight. */
const MAY_END = 1 << 9;
/** The code of the end of string, which a string must not contain. */
const FAILS = 1 << 10;
const STATE_SHIFT = 11;
/** Decoding steps by state (an inner node of the code's tree) and four bits. */
const STEPS = decodingSteps();

/** Length of `text` (latin1) in octets when encoded. */
export function huffmanLength(text: string): number {
  let bits = 0;
  for (let i = 0; i < text.length; i++) bits += LENGTHS[text.charCodeAt(i) & 0xff] as number;
  return (bits + 7) >>> 3;
}

/** Writes `text` (latin1) at `at`, which must have room. Returns the end. */
export function huffmanEncode(text: string, to: Uint8Array, at: number): number {
  let end = at;
  let held = 0;
  let bits = 0;
  for (let i = 0; i < text.length; i++) {
    const octet = text.charCodeAt(i) & 0xff;
    let length = LENGTHS[octet] as number;
    let code = CODES[octet] as number;
    // At most 7 bits are pending: in two parts a code fits 32 bits.
    if (length > 16) {
      held = (held << (length - 16)) | (code >>> 16);
      bits += length - 16;
      for (; bits >= 8; bits -= 8) to[end++] = held >>> (bits - 8);
      code &= 0xffff;
      length = 16;
    }
    held = (held << length) | code;
    bits += length;
    for (; bits >= 8; bits -= 8) to[end++] = held >>> (bits - 8);
  }
  if (bits > 0) to[end++] = (held << (8 - bits)) | (0xff >>> bits);
  return end;
}

/** Upper bound of the decoded octets: no code has fewer than five bits. */
export function huffmanDecodedLimit(encoded: number): number {
  return Math.ceil(encoded * 8 / 5);
}

/** Decodes `from[start, end)` to the beginning of `to`. Returns the number of octets, or -1: invalid. */
export function huffmanDecode(
  from: Uint8Array,
  start: number,
  end: number,
  to: Uint8Array,
): number {
  let length = 0;
  let step = MAY_END;
  for (let at = start; at < end; at++) {
    const octet = from[at] as number;
    step = STEPS[((step >>> STATE_SHIFT) << 4) | (octet >>> 4)] as number;
    if ((step & EMITS) !== 0) to[length++] = step;
    if ((step & FAILS) !== 0) return -1;
    step = STEPS[((step >>> STATE_SHIFT) << 4) | (octet & 15)] as number;
    if ((step & EMITS) !== 0) to[length++] = step;
    if ((step & FAILS) !== 0) return -1;
  }
  return (step & MAY_END) !== 0 ? length : -1;
}

function canonicalCodes(): Uint32Array {
  const codes = new Uint32Array(LENGTHS.length);
  let next = 0;
  for (let length = 1; length <= 30; length++, next *= 2) {
    for (let octet = 0; octet < LENGTHS.length; octet++) {
      if (LENGTHS[octet] === length) codes[octet] = next++;
    }
  }
  return codes;
}

function decodingSteps(): Uint32Array {
  /** Two branches of each inner node: another node, or -1 minus its octet; 0: not made yet. */
  const branches: number[] = [0, 0];
  /** Whether the path to a node is all ones and short enough to be padding. */
  const mayEnd: boolean[] = [true];
  for (let octet = 0; octet < LENGTHS.length; octet++) {
    const code = CODES[octet] as number;
    let node = 0;
    for (let bit = (LENGTHS[octet] as number) - 1, depth = 1; bit >= 0; bit--, depth++) {
      const branch = node * 2 + ((code >>> bit) & 1);
      if (bit === 0) {
        branches[branch] = -1 - octet;
        break;
      }
      if (branches[branch] === 0) {
        branches[branch] = mayEnd.length;
        mayEnd.push(depth < 8 && code >>> bit === (1 << depth) - 1);
        branches.push(0, 0);
      }
      node = branches[branch] as number;
    }
  }
  const steps = new Uint32Array(mayEnd.length * 16);
  for (let state = 0; state < mayEnd.length; state++) {
    for (let four = 0; four < 16; four++) {
      let node = state;
      let step = 0;
      for (let bit = 3; bit >= 0; bit--) {
        node = branches[node * 2 + ((four >>> bit) & 1)] as number;
        if (node >= 0) continue;
        const octet = -1 - node;
        step |= octet === END_OF_STRING ? FAILS : EMITS | octet;
        node = 0;
      }
      if (mayEnd[node]) step |= MAY_END;
      steps[state * 16 + four] = step | (node << STATE_SHIFT);
    }
  }
  return steps;
}
