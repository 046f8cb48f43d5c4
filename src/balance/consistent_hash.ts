/** Consistent hashing. Keys of an ejected endpoint, which stays, go to the next usable. @module */

import type { Random } from "../base/mod.ts";
import type { EndpointRecord, Excluded } from "./types.ts";
import { Balancer, firstAllowed } from "./balancer.ts";

export interface RingSizes {
  readonly minimumSize: number;
  readonly maximumSize: number;
}

/** A point is `hash * 2^20 + member` in one number, so that the ring sorts as plain numbers. */
const MEMBER_BITS = 2 ** 20;

/** Points cost 8 bytes each; more than these no longer balance better, whatever is configured. */
const POINTS_LIMIT = 2 ** 20;

/** Points or slots tried before the usable endpoints are searched in order. */
const WALK_LIMIT = 1024;

/**
 * A ring: each endpoint owns points in proportion to its weight, a key belongs to the first point at or after
 * it. An endpoint that comes or goes moves only its own share of the keys.
 */
export class RingHash extends Balancer {
  readonly #sizes: RingSizes;
  /** Built when first needed. */
  #ring: Float64Array | undefined;

  constructor(random: Random, sizes: RingSizes) {
    super(random);
    this.#sizes = sizes;
  }

  override update(members: readonly EndpointRecord[], usable: readonly EndpointRecord[]): void {
    if (members !== this.members) this.#ring = undefined;
    super.update(members, usable);
  }

  pick(hash: number | undefined, excluded: Excluded): EndpointRecord | undefined {
    const usable = this.usable;
    if (usable.length === 0) return undefined;
    const key = mix32(hash ?? this.random() * 2 ** 32);
    const ring = this.#ring ??= buildRing(this.members, this.#sizes);
    let position = lowerBound(ring, key * MEMBER_BITS);
    for (let step = Math.min(ring.length, WALK_LIMIT); step > 0; step--, position++) {
      if (position >= ring.length) position = 0;
      const record = this.members[(ring[position] ?? 0) % MEMBER_BITS];
      if (record && !record.ejected && !excluded?.has(record)) return record;
    }
    return firstAllowed(usable, excluded, key % usable.length);
  }
}

/** Sorted points; every member has at least one. */
function buildRing(members: readonly EndpointRecord[], sizes: RingSizes): Float64Array {
  const size = Math.min(members.length, MEMBER_BITS);
  let total = 0;
  let least = Infinity;
  for (const { weight } of members) {
    total += weight;
    least = Math.min(least, weight);
  }
  const share = pointsPerWeight(total, least, sizes);
  const ring: number[] = [];
  for (let member = 0; member < size; member++) {
    const record = members[member];
    if (!record) continue;
    const address = `${record.endpoint.host}:${record.endpoint.port}`;
    const first = hashText(address);
    const stride = hashText(address, 0x5bd1e995) | 1;
    const count = Math.max(1, Math.round(share * record.weight));
    for (let point = 0; point < count; point++) {
      ring.push(mix32(first + Math.imul(point, stride)) * MEMBER_BITS + member);
    }
  }
  return Float64Array.from(ring).sort();
}

/**
 * The number of points: the ring has its minimum size and the lightest endpoint a whole point, unless
 * that is above the maximum. Always a power of two: an endpoint that comes or goes rarely changes it, and
 * then the others' points stay.
 */
function pointsPerWeight(total: number, least: number, sizes: RingSizes): number {
  const limit = Math.max(1, Math.min(sizes.maximumSize, POINTS_LIMIT));
  let share = 2 ** Math.ceil(Math.log2(Math.max(sizes.minimumSize / total, 1 / least)));
  while (share * total > limit) share /= 2;
  return share;
}

/** The first position whose point is not below `wanted`. */
function lowerBound(ring: Float64Array, wanted: number): number {
  let low = 0;
  let high = ring.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ring[middle] ?? 0) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Envoy's default, a prime. */
const SLOTS = 65_537;

type Slots = Uint16Array | Uint32Array;

/**
 * A table of prime size: each endpoint walks the table in an order of its own and takes free slots in turn,
 * in proportion to its weight. Looking up is one step and shares are nearly exact; an endpoint that comes or
 * goes moves a little more than its own share of the keys.
 */
export class Maglev extends Balancer {
  /** Position in `members` by slot; built when first needed. */
  #slots: Slots | undefined;

  override update(members: readonly EndpointRecord[], usable: readonly EndpointRecord[]): void {
    if (members !== this.members) this.#slots = undefined;
    super.update(members, usable);
  }

  pick(hash: number | undefined, excluded: Excluded): EndpointRecord | undefined {
    const usable = this.usable;
    if (usable.length === 0) return undefined;
    const key = mix32(hash ?? this.random() * 2 ** 32);
    const slots = this.#slots ??= buildSlots(this.members);
    for (let step = 0; step < WALK_LIMIT; step++) {
      const record = this.members[slots[(key + step) % SLOTS] ?? 0];
      if (record && !record.ejected && !excluded?.has(record)) return record;
    }
    return firstAllowed(usable, excluded, key % usable.length);
  }
}

function buildSlots(members: readonly EndpointRecord[]): Slots {
  const size = members.length;
  // Half the memory for every target but a very large one.
  const free = size < 0xffff ? 0xffff : 0xffff_ffff;
  const slots = (size < 0xffff ? new Uint16Array(SLOTS) : new Uint32Array(SLOTS)).fill(free);
  // In the order of addresses, so that all proxies make the same table.
  const order = members.map((_, member) => member)
    .sort((a, b) => (members[a]?.key ?? "") < (members[b]?.key ?? "") ? -1 : 1);
  const next = new Uint32Array(size);
  const strides = new Uint32Array(size);
  const heaviest = members.reduce((most, { weight }) => Math.max(most, weight), 1);
  // A member takes a slot in each round in which its credit reaches the heaviest weight; all take
  // one in the first round.
  const credits = Float64Array.from(members, ({ weight }) => heaviest - weight);
  members.forEach(({ endpoint }, member) => {
    const address = `${endpoint.host}:${endpoint.port}`;
    next[member] = hashText(address) % SLOTS;
    strides[member] = 1 + hashText(address, 0x5bd1e995) % (SLOTS - 1);
  });
  for (let taken = 0;;) {
    for (const member of order) {
      const credit = (credits[member] ?? 0) + (members[member]?.weight ?? 0);
      credits[member] = credit < heaviest ? credit : credit - heaviest;
      if (credit < heaviest) continue;
      let slot = next[member] ?? 0;
      const stride = strides[member] ?? 1;
      while (slots[slot] !== free) slot = (slot + stride) % SLOTS;
      slots[slot] = member;
      next[member] = (slot + stride) % SLOTS;
      if (++taken === SLOTS) return slots;
    }
  }
}

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
