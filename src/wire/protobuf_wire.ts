/** The wire format of Protocol Buffers: numbers, lengths, and fields with a length. @module */

export const VARINT = 0;
export const FIXED64 = 1;
export const LENGTH_DELIMITED = 2;
export const FIXED32 = 5;

/** Ten thousand resources have some 30,000. An empty field takes two bytes, and many times that in memory. */
const FIELDS_LIMIT = 200_000;

const ENCODER = new TextEncoder();
const SHORT_CHARS = 100;
/** Octets of the longest length. */
const LENGTH_OCTETS = 5;

/** Reads the fields of a message. Throws a RangeError for truncated or invalid bytes. */
export class ProtobufReader {
  at = 0;
  /** The upper half of the last number. */
  high = 0;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #fields = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  /** Number and wire type of the next field. */
  tag(): number {
    if (++this.#fields > FIELDS_LIMIT) {
      throw new RangeError(`it has more than ${FIELDS_LIMIT} fields`);
    }
    const tag = this.varint();
    if (tag < 8 || this.high !== 0) throw new RangeError("a field without a number");
    return tag;
  }

  /** The lower half of a number of 64 bits. */
  varint(): number {
    let low = 0;
    this.high = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = this.#bytes[this.at++];
      if (byte === undefined) throw new RangeError("it is cut short");
      const bits = byte & 0x7f;
      if (shift < 32) low |= bits << shift;
      if (shift > 28) this.high |= bits << (shift - 32);
      else if (shift === 28) this.high = bits >>> 4;
      if (byte < 0x80) return low >>> 0;
    }
    throw new RangeError("a number of more than ten bytes");
  }

  double(): number {
    this.at += 8;
    return this.#view.getFloat64(this.at - 8, true);
  }

  /** An unsigned number of 32 bits. */
  fixed32(): number {
    this.at += 4;
    return this.#view.getUint32(this.at - 4, true);
  }

  /** An unsigned number of 64 bits. */
  fixed64(): bigint {
    this.at += 8;
    return this.#view.getBigUint64(this.at - 8, true);
  }

  /** End of the length-delimited value that begins here. */
  end(): number {
    const length = this.varint();
    if (this.high !== 0 || length > this.#bytes.length - this.at) {
      throw new RangeError("it is cut short");
    }
    return this.at + length;
  }

  chunk(): Uint8Array {
    const end = this.end();
    const chunk = this.#bytes.subarray(this.at, end);
    this.at = end;
    return chunk;
  }

  skip(wireType: number): void {
    if (wireType === VARINT) this.varint();
    else if (wireType === FIXED64) this.at += 8;
    else if (wireType === LENGTH_DELIMITED) this.at = this.end();
    else if (wireType === FIXED32) this.at += 4;
    // Groups do not exist in proto3.
    else throw new RangeError(`a field of the unknown kind ${wireType}`);
  }
}

export class ProtobufWriter {
  bytes: Uint8Array = new Uint8Array(256);
  length = 0;

  integer(number: number, value: number): void {
    this.#varint(number << 3 | VARINT);
    this.#varint(value >>> 0, Math.floor(value / 2 ** 32) >>> 0);
  }

  /** An unsigned number of 64 bits. */
  digits(number: number, value: bigint): void {
    this.#varint(number << 3 | VARINT);
    this.#varint(Number(value & 0xffff_ffffn), Number(value >> 32n & 0xffff_ffffn));
  }

  double(number: number, value: number): void {
    this.#varint(number << 3 | FIXED64);
    this.#reserve(8);
    new DataView(this.bytes.buffer).setFloat64(this.length, value, true);
    this.length += 8;
  }

  fixed32(number: number, value: number): void {
    this.#varint(number << 3 | FIXED32);
    this.#reserve(4);
    new DataView(this.bytes.buffer).setUint32(this.length, value, true);
    this.length += 4;
  }

  fixed64(number: number, value: bigint): void {
    this.#varint(number << 3 | FIXED64);
    this.#reserve(8);
    new DataView(this.bytes.buffer).setBigUint64(this.length, value, true);
    this.length += 8;
  }

  text(number: number, text: string): void {
    this.#varint(number << 3 | LENGTH_DELIMITED);
    // An UTF-16 unit takes three octets at most.
    this.#reserve(text.length * 3 + LENGTH_OCTETS);
    const start = this.length + 1;
    if (this.#putAscii(start, text)) return this.#putLength(start, text.length);
    const { written } = ENCODER.encodeInto(text, this.bytes.subarray(start));
    this.#putLength(start, written);
  }

  /** Short texts without a view of the bytes. False: it is long, or has other characters. */
  #putAscii(start: number, text: string): boolean {
    if (text.length > SHORT_CHARS) return false;
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      if (code > 0x7f) return false;
      this.bytes[start + i] = code;
    }
    return true;
  }

  /** Octets that `digits` have as hexadecimal digits. */
  hex(number: number, digits: string): void {
    const size = digits.length >> 1;
    this.#varint(number << 3 | LENGTH_DELIMITED);
    this.#varint(size);
    this.#reserve(size);
    for (let at = 0; at < digits.length; at += 2) {
      this.bytes[this.length++] = hexValue(digits, at) << 4 | hexValue(digits, at + 1);
    }
  }

  /** Whole fields, encoded before. */
  raw(fields: Uint8Array): void {
    this.#reserve(fields.length);
    this.bytes.set(fields, this.length);
    this.length += fields.length;
  }

  chunk(number: number, chunk: Uint8Array): void {
    this.#varint(number << 3 | LENGTH_DELIMITED);
    this.#varint(chunk.length);
    this.#reserve(chunk.length);
    this.bytes.set(chunk, this.length);
    this.length += chunk.length;
  }

  /** A length-delimited field with the bytes of `write`. */
  within(number: number, write: () => void): void {
    this.#varint(number << 3 | LENGTH_DELIMITED);
    this.#reserve(LENGTH_OCTETS);
    const start = ++this.length;
    write();
    this.#reserve(LENGTH_OCTETS);
    this.#putLength(start, this.length - start);
  }

  /** Writes the length before the octets from `start` on, where one octet was left for it. */
  #putLength(start: number, size: number): void {
    let octets = 1;
    while (size >= 2 ** (7 * octets)) octets++;
    if (octets > 1) this.bytes.copyWithin(start + octets - 1, start, start + size);
    this.length = start - 1;
    this.#varint(size);
    this.length += size;
  }

  #varint(low: number, high = 0): void {
    this.#reserve(10);
    while (low > 0x7f || high > 0) {
      this.bytes[this.length++] = low & 0x7f | 0x80;
      low = (low >>> 7 | high << 25) >>> 0;
      high >>>= 7;
    }
    this.bytes[this.length++] = low;
  }

  #reserve(size: number): void {
    if (this.length + size <= this.bytes.length) return;
    const larger = new Uint8Array(Math.max(this.length + size, this.bytes.length * 2));
    larger.set(this.bytes.subarray(0, this.length));
    this.bytes = larger;
  }
}

/** Value of a digit in lower case. */
function hexValue(digits: string, at: number): number {
  const code = digits.charCodeAt(at);
  return code > 0x60 ? code - 0x57 : code & 0x0f;
}
