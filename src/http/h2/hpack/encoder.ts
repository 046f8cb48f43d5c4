/**
 * Encodes fields as header blocks (RFC 7541). A field goes into the peer's table if values of its name tend
 * to repeat; the first values decide, later ones may revise it. A value that changes with every request is
 * written as a literal and evicts nothing. Secrets are never kept in a table, so that they cannot be
 * guessed from the length of other fields (RFC 7541 7.1).
 *
 * @module
 */

import { writeLatin1 } from "../../latin1.ts";
import { huffmanEncode, huffmanLength } from "./huffman.ts";
import { DEFAULT_TABLE_BYTES, FIELD_OVERHEAD_BYTES, STATIC_FIELDS } from "./fields.ts";

/** Octets that a field takes at most in addition to name and value: three integers below 2^28. */
export const FIELD_ROOM_BYTES = 16;

const SECRET = new Set(["authorization", "proxy-authorization", "cookie", "set-cookie"]);
/** Names that an encoder remembers; a connection with more of them starts anew. */
const NAMES_LIMIT = 256;
/** Values of a name that may go into the table before one of them has to repeat. */
const TRIALS = 4;
/** A larger field would leave little room for others. */
const INDEXED_BYTES = DEFAULT_TABLE_BYTES / 4;
/** Up to this length a loop writes a text faster. */
const SHORT = 24;

interface KnownName {
  /** Index of a static field with this name; 0: none. */
  readonly staticIndex: number;
  readonly secret: boolean;
  /** Places of its values. Static table: index; dynamic: -1 minus the number of entries added before. */
  readonly places: Map<string, number>;
  added: number;
  found: number;
  last: string;
}

interface Kept {
  readonly places: Map<string, number>;
  readonly value: string;
  readonly size: number;
}

const STATIC_PLACES = new Map<string, Map<string, number>>();
STATIC_FIELDS.forEach(([name, value], i) => {
  const places = STATIC_PLACES.get(name) ?? new Map<string, number>();
  places.set(value, i + 1);
  STATIC_PLACES.set(name, places);
});
const STATIC_INDEX = new Map<string, number>();
for (let i = STATIC_FIELDS.length; i > 0; i--) STATIC_INDEX.set(STATIC_FIELDS[i - 1]?.[0] ?? "", i);

export class HpackEncoder {
  #names = new Map<string, KnownName>();
  /** Entries of the dynamic table, oldest first, from `#oldest` on. */
  #kept: Kept[] = [];
  #oldest = 0;
  /** Entries added since the connection began. */
  #added = 0;
  #usedBytes = 0;
  #limitBytes = DEFAULT_TABLE_BYTES;
  /** The smallest limit since the last block, which the next block announces; -1: none. */
  #smallestLimit = -1;

  /** Applies the peer's SETTINGS_HEADER_TABLE_SIZE; we use at most the default. */
  limitTable(peerBytes: number): void {
    const limit = Math.min(peerBytes, DEFAULT_TABLE_BYTES);
    if (limit === this.#limitBytes && this.#smallestLimit < 0) return;
    this.#smallestLimit = this.#smallestLimit < 0 ? limit : Math.min(this.#smallestLimit, limit);
    this.#limitBytes = limit;
    this.#evict(0);
  }

  /** Writes table size updates that begin a block, at most {@link FIELD_ROOM_BYTES}. Returns the end. */
  begin(to: Uint8Array, at: number): number {
    if (this.#smallestLimit < 0) return at;
    if (this.#smallestLimit < this.#limitBytes) {
      at = writeInteger(to, at, 0x20, 0x1f, this.#smallestLimit);
    }
    this.#smallestLimit = -1;
    return writeInteger(to, at, 0x20, 0x1f, this.#limitBytes);
  }

  /** Writes a field, its name in lower case. Returns the end. */
  field(name: string, value: string, to: Uint8Array, at: number): number {
    const known = this.#names.get(name) ?? this.#learn(name);
    const place = known.places.get(value);
    if (place !== undefined) {
      known.found++;
      const index = place > 0 ? place : STATIC_FIELDS.length + this.#added + place + 1;
      return writeInteger(to, at, 0x80, 0x7f, index);
    }
    if (known.secret) return this.#literal(known, name, value, 0x10, to, at);
    const size = name.length + value.length + FIELD_OVERHEAD_BYTES;
    const worth = known.added < TRIALS + known.found || known.last === value;
    known.last = value;
    if (!worth || size > INDEXED_BYTES || size > this.#limitBytes) {
      return this.#literal(known, name, value, 0, to, at);
    }
    known.added++;
    const end = this.#literal(known, name, value, 0x40, to, at);
    this.#add(known, value, size);
    return end;
  }

  #learn(name: string): KnownName {
    const places = STATIC_PLACES.get(name);
    const known: KnownName = {
      staticIndex: STATIC_INDEX.get(name) ?? 0,
      secret: SECRET.has(name),
      places: places ? new Map(places) : new Map(),
      added: 0,
      found: 0,
      last: "",
    };
    // Forgets the names, and with them the places in the peer's table, which are then unused.
    if (this.#names.size >= NAMES_LIMIT) this.#names = new Map();
    this.#names.set(name, known);
    return known;
  }

  #literal(
    known: KnownName,
    name: string,
    value: string,
    how: 0 | 0x10 | 0x40,
    to: Uint8Array,
    at: number,
  ): number {
    at = writeInteger(to, at, how, how === 0x40 ? 0x3f : 0x0f, known.staticIndex);
    // An indexed value is written once, so that Huffman coding is worth its time.
    if (known.staticIndex === 0) at = writeString(to, at, name, how === 0x40);
    return writeString(to, at, value, how === 0x40);
  }

  #add({ places }: KnownName, value: string, size: number): void {
    this.#evict(size);
    places.set(value, -1 - this.#added++);
    this.#kept.push({ places, value, size });
    this.#usedBytes += size;
  }

  #evict(size: number): void {
    while (this.#oldest < this.#kept.length && this.#usedBytes + size > this.#limitBytes) {
      const { places, value, size: freed } = this.#kept[this.#oldest++] as Kept;
      places.delete(value);
      this.#usedBytes -= freed;
    }
    if (this.#oldest < 256) return;
    this.#kept = this.#kept.slice(this.#oldest);
    this.#oldest = 0;
  }
}

/** RFC 7541 5.1, below 2^28. */
function writeInteger(
  to: Uint8Array,
  at: number,
  top: number,
  mask: number,
  value: number,
): number {
  if (value < mask) {
    to[at] = top | value;
    return at + 1;
  }
  to[at++] = top | mask;
  for (value -= mask; value >= 0x80; value >>>= 7) to[at++] = (value & 0x7f) | 0x80;
  to[at] = value;
  return at + 1;
}

function writeString(to: Uint8Array, at: number, text: string, short: boolean): number {
  const length = short ? huffmanLength(text) : text.length;
  if (length < text.length) {
    return huffmanEncode(text, to, writeInteger(to, at, 0x80, 0x7f, length));
  }
  at = writeInteger(to, at, 0, 0x7f, text.length);
  if (text.length > SHORT) writeLatin1(to, text, at);
  else for (let i = 0; i < text.length; i++) to[at + i] = text.charCodeAt(i);
  return at + text.length;
}
