/**
 * Consistent hashing by a table of prime size: each endpoint walks the table in an order of its own and
 * takes free slots in turn, in proportion to its weight. Looking up is one step and shares are nearly
 * exact; an endpoint that comes or goes moves a little more than its own share of the keys. An ejected
 * endpoint keeps its slots; its keys go to the next usable slot.
 *
 * @module
 */

import type { Random } from "../base/mod.ts";
import type { Balancer, EndpointRecord, Excluded } from "./types.ts";
import { hashText, mix32 } from "./hash.ts";
import { firstAllowed } from "./weighted.ts";

/** Envoy's default, a prime. */
const SLOTS = 65_537;

type Slots = Uint16Array | Uint32Array;

/** Slots tried before the usable endpoints are searched in order. */
const WALK_LIMIT = 1024;

export class Maglev implements Balancer {
  readonly #random: Random;
  #members: readonly EndpointRecord[] = [];
  #usable: readonly EndpointRecord[] = [];
  /** Position in `#members` by slot; built when first needed. */
  #slots: Slots | undefined;

  constructor(random: Random) {
    this.#random = random;
  }

  update(members: readonly EndpointRecord[], usable: readonly EndpointRecord[]): void {
    if (members !== this.#members) this.#slots = undefined;
    this.#members = members;
    this.#usable = usable;
  }

  pick(hash: number | undefined, excluded: Excluded): EndpointRecord | undefined {
    const usable = this.#usable;
    if (usable.length === 0) return undefined;
    const key = mix32(hash ?? this.#random() * 2 ** 32);
    const slots = this.#slots ??= buildSlots(this.#members);
    for (let step = 0; step < WALK_LIMIT; step++) {
      const record = this.#members[slots[(key + step) % SLOTS] ?? 0];
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
