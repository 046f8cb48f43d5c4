/** Random ids of traces and spans, as hexadecimal texts. @module */

import { Buffer } from "node:buffer";

export interface NewIds {
  readonly traceId: string;
  readonly spanId: string;
}

/** Digits of a trace id that decide whether it is sampled, and their number of values. */
export const DECIDING_DIGITS = 13;
export const DECIDING_VALUES = 2 ** (4 * DECIDING_DIGITS);
/** Positions made at a time, by one call for random bytes. */
const POOLED = 64;
const ID_BYTES = 24;
const TRACE_BYTES = 16;
const SPAN_BYTES = 8;
/** `00-`, the trace id, `-`, the span id, `-00`. */
const PARENT_CHARS = 55;
const TRACE_AT = 3;
const SPAN_AT = 36;
const TEMPLATE = `00-${"0".repeat(2 * TRACE_BYTES)}-${"0".repeat(2 * SPAN_BYTES)}-00`;
/** The two digits of each byte. */
const HIGH = new Uint8Array(256);
const LOW = new Uint8Array(256);
for (let byte = 0; byte < 256; byte++) {
  const digits = byte.toString(16).padStart(2, "0");
  HIGH[byte] = digits.charCodeAt(0);
  LOW[byte] = digits.charCodeAt(1);
}

/**
 * Random ids of traces and spans. Most requests are not sampled and get no more than the text of their
 * `traceparent`: a slice of one text that has many of them.
 */
export class TraceIds {
  readonly #random = new Uint8Array(POOLED * ID_BYTES);
  readonly #texts = Buffer.from(TEMPLATE.repeat(POOLED), "latin1");
  #pool = "";
  /** The position that is given next. */
  #next = POOLED;

  /** Whether the next trace id is chosen; asking does not use it up. */
  nextIsBelow(ratio: number): boolean {
    if (ratio >= 1 || ratio <= 0) return ratio >= 1;
    if (this.#next >= POOLED) this.#fill();
    const random = this.#random;
    const end = this.#next * ID_BYTES + TRACE_BYTES;
    // The last 52 bits, as a whole number: the digits that `DECIDING_DIGITS` are.
    let value = (random[end - 7] ?? 0) & 0xf;
    for (let at = end - 6; at < end; at++) value = value * 256 + (random[at] ?? 0);
    return value < ratio * DECIDING_VALUES;
  }

  /** A `traceparent` with new ids and the flags of a request that is not sampled. */
  unsampled(): string {
    if (this.#next >= POOLED) this.#fill();
    const from = this.#next++ * PARENT_CHARS;
    return this.#pool.slice(from, from + PARENT_CHARS);
  }

  next(): NewIds {
    const parent = this.unsampled();
    return { traceId: parent.slice(TRACE_AT, SPAN_AT - 1), spanId: parent.slice(SPAN_AT, -3) };
  }

  #fill(): void {
    const random = crypto.getRandomValues(this.#random);
    const texts: Uint8Array = this.#texts;
    for (let from = 0, to = 0; from < random.length; from += ID_BYTES, to += PARENT_CHARS) {
      writeHex(random, { from, bytes: TRACE_BYTES, texts, to: to + TRACE_AT });
      writeHex(random, { from: from + TRACE_BYTES, bytes: SPAN_BYTES, texts, to: to + SPAN_AT });
    }
    this.#pool = this.#texts.toString("latin1");
    this.#next = 0;
  }
}

function writeHex(random: Uint8Array, { from, bytes, texts, to }: {
  readonly from: number;
  readonly bytes: number;
  readonly texts: Uint8Array;
  readonly to: number;
}): void {
  for (let at = 0; at < bytes; at++) {
    const byte = random[from + at] ?? 0;
    texts[to + 2 * at] = HIGH[byte] ?? 0;
    texts[to + 2 * at + 1] = LOW[byte] ?? 0;
  }
}
