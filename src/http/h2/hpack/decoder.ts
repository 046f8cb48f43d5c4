/** Decodes header blocks (RFC 7541); texts in the table were validated when they came. @module */

import { isBlank } from "../../field_names.ts";
import { latin1 } from "../../latin1.ts";
import {
  DEFAULT_TABLE_BYTES,
  FIELD_OVERHEAD_BYTES,
  type FieldName,
  kindOfField,
  octets,
  STATIC_FIELDS,
} from "./fields.ts";
import { huffmanDecode, huffmanDecodedLimit } from "./huffman.ts";

export interface FieldSink {
  /** `sound`: the value is valid by RFC 9110 5.5, without white space around it. */
  onField(name: FieldName, value: string, sound: boolean): void;
}

interface Entry {
  readonly name: FieldName;
  readonly value: string;
  readonly sound: boolean;
}

const STATIC: readonly Entry[] = STATIC_FIELDS.map(([text, value]) => ({
  name: { text, kind: kindOfField(text) },
  value,
  sound: true,
}));
const STATIC_NAMES: ReadonlyMap<string, FieldName> = new Map(
  STATIC.map(({ name }) => [name.text, name]),
);

/** Visible characters, those above 0x7F, space and tab. */
const VALUE_OCTETS = octets("\\t\\x20-\\x7e\\x80-\\xff");
/** No valid length or index is above this. */
const INTEGER_LIMIT = 1 << 24;
/** Entries of at least {@link FIELD_OVERHEAD_BYTES} that fit the table; a power of two. */
const SLOTS = DEFAULT_TABLE_BYTES / FIELD_OVERHEAD_BYTES;

/** The decoder of one connection. Its table has {@link DEFAULT_TABLE_BYTES}, which we never change. */
export class HpackDecoder {
  /** A ring: the newest entry is before `#next`. */
  readonly #entries: (Entry | undefined)[] = [];
  #next = 0;
  #count = 0;
  #usedBytes = 0;
  #limitBytes = DEFAULT_TABLE_BYTES;
  /** Position of the next octet, and the end of the block. */
  #at = 0;
  #end = 0;
  /** Whether the last string is sound as a value. */
  #sound = true;
  #scratch = new Uint8Array(256);

  /** Passes the fields of a whole block to `sink`. Returns `""`, or the fault that ends the connection. */
  decode(bytes: Uint8Array, start: number, end: number, sink: FieldSink): string {
    this.#at = start;
    this.#end = end;
    let updates = 0;
    while (this.#at < end) {
      const octet = bytes[this.#at] as number;
      if (octet >= 0x80) {
        updates = -1;
        const entry = this.#entry(this.#integer(bytes, 0x7f));
        if (entry === undefined) return "an index that names no field";
        sink.onField(entry.name, entry.value, entry.sound);
        continue;
      }
      if ((octet & 0xe0) === 0x20) {
        const size = this.#integer(bytes, 0x1f);
        // At most two, before the fields (RFC 7541 4.2).
        if (updates < 0 || ++updates > 2) return "a table size update out of place";
        if (size < 0 || size > DEFAULT_TABLE_BYTES) return "a table size above the limit";
        this.#limitBytes = size;
        this.#evict(0);
        continue;
      }
      updates = -1;
      const indexed = octet >= 0x40;
      const index = this.#integer(bytes, indexed ? 0x3f : 0x0f);
      let name: FieldName | undefined;
      if (index === 0) {
        const text = this.#string(bytes);
        if (text === undefined) return "a broken name";
        name = STATIC_NAMES.get(text) ?? { text, kind: kindOfField(text) };
      } else {
        name = this.#entry(index)?.name;
        if (name === undefined) return "an index that names no field";
      }
      const value = this.#string(bytes);
      if (value === undefined) return "a broken value";
      if (indexed) this.#add({ name, value, sound: this.#sound });
      sink.onField(name, value, this.#sound);
    }
    return "";
  }

  #entry(index: number): Entry | undefined {
    if (index <= STATIC.length) return STATIC[index - 1];
    const back = index - STATIC.length;
    return back > this.#count ? undefined : this.#entries[(this.#next - back) & (SLOTS - 1)];
  }

  #add(entry: Entry): void {
    const size = sizeOf(entry);
    this.#evict(size);
    // A field that is larger than the table empties it (RFC 7541 4.4).
    if (size > this.#limitBytes) return;
    this.#entries[this.#next] = entry;
    this.#next = (this.#next + 1) & (SLOTS - 1);
    this.#count++;
    this.#usedBytes += size;
  }

  /** Evicts entries until `size` octets fit. */
  #evict(size: number): void {
    while (this.#count > 0 && this.#usedBytes + size > this.#limitBytes) {
      const oldest = (this.#next - this.#count) & (SLOTS - 1);
      this.#usedBytes -= sizeOf(this.#entries[oldest] as Entry);
      this.#entries[oldest] = undefined;
      this.#count--;
    }
  }

  /** RFC 7541 5.1; -1: it is incomplete or too large. */
  #integer(bytes: Uint8Array, mask: number): number {
    let value = (bytes[this.#at++] as number) & mask;
    if (value < mask) return value;
    for (let shift = 0; this.#at < this.#end && shift <= 21; shift += 7) {
      const octet = bytes[this.#at++] as number;
      value += (octet & 0x7f) << shift;
      if (octet < 0x80) return value < INTEGER_LIMIT ? value : -1;
    }
    return -1;
  }

  #string(bytes: Uint8Array): string | undefined {
    if (this.#at >= this.#end) return undefined;
    const huffman = (bytes[this.#at] as number) >= 0x80;
    const length = this.#integer(bytes, 0x7f);
    const start = this.#at;
    if (length < 0 || length > this.#end - start) return undefined;
    this.#at = start + length;
    if (!huffman) return this.#text(bytes, start, this.#at);
    const room = huffmanDecodedLimit(length);
    if (this.#scratch.length < room) this.#scratch = new Uint8Array(room * 2);
    const decoded = huffmanDecode(bytes, start, this.#at, this.#scratch);
    if (decoded < 0) return undefined;
    const text = this.#text(this.#scratch, 0, decoded);
    // Releases the memory of a single long field.
    if (room > KEPT_SCRATCH_BYTES) this.#scratch = new Uint8Array(256);
    return text;
  }

  #text(bytes: Uint8Array, start: number, end: number): string {
    let at = start;
    while (at < end && VALUE_OCTETS[bytes[at] as number] === 1) at++;
    const isPadded = end > start && (isBlank(bytes[start]) || isBlank(bytes[end - 1]));
    this.#sound = at === end && !isPadded;
    return latin1(bytes, start, end);
  }
}

const KEPT_SCRATCH_BYTES = 4096;

function sizeOf({ name, value }: Entry): number {
  return name.text.length + value.length + FIELD_OVERHEAD_BYTES;
}
