/** The open streams of a connection, by number, and those closed last. @module */

/** Power of two; at most half of the slots are used. */
const FEWEST_SLOTS = 16;
/** Odd. Peers number the streams that they open, and must not be able to choose their slots. */
const FACTOR = (crypto.getRandomValues(new Int32Array(1))[0] ?? 0) | 0x40000001;

export class StreamTable<S extends { readonly id: number }> {
  #slots: (S | undefined)[] = new Array(FEWEST_SLOTS).fill(undefined);
  #shift = Math.clz32(FEWEST_SLOTS) + 1;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(id: number): S | undefined {
    const slots = this.#slots;
    const mask = slots.length - 1;
    for (let at = this.#home(id);; at = (at + 1) & mask) {
      const stream = slots[at];
      if (stream === undefined || stream.id === id) return stream;
    }
  }

  /** The slot of a stream that is missing. */
  add(id: number, stream: S): void {
    if (2 * (this.#size + 1) > this.#slots.length) this.#resize(this.#slots.length * 2);
    this.#put(id, stream);
    this.#size++;
  }

  #put(id: number, stream: S): void {
    const slots = this.#slots;
    const mask = slots.length - 1;
    let at = this.#home(id);
    while (slots[at] !== undefined) at = (at + 1) & mask;
    slots[at] = stream;
  }

  delete(id: number): void {
    const slots = this.#slots;
    const mask = slots.length - 1;
    let at = this.#home(id);
    while (slots[at]?.id !== id) {
      if (slots[at] === undefined) return;
      at = (at + 1) & mask;
    }
    // A stream that was placed after this slot moves up.
    for (let next = (at + 1) & mask;; next = (next + 1) & mask) {
      const stream = slots[next];
      if (stream === undefined) break;
      const home = this.#home(stream.id);
      if (((next - home) & mask) < ((next - at) & mask)) continue;
      slots[at] = stream;
      at = next;
    }
    slots[at] = undefined;
    if (--this.#size === 0 && slots.length > FEWEST_SLOTS) this.#resize(FEWEST_SLOTS);
  }

  #home(id: number): number {
    return Math.imul(id, FACTOR) >>> this.#shift;
  }

  #resize(slots: number): void {
    const all = this.all();
    this.#slots = new Array(slots).fill(undefined);
    this.#shift = Math.clz32(slots) + 1;
    for (const stream of all) this.#put(stream.id, stream);
  }

  /** Open streams, in the order of their numbers. */
  all(): S[] {
    return this.#slots.filter((stream) => stream !== undefined).sort((a, b) => a.id - b.id);
  }
}

export type CloseKind =
  /** Both sides had sent their end. */
  | "ended"
  | "reset by peer"
  /** The peer may not know yet. */
  | "reset by us";

export class ClosedStreams {
  /** Many may be reset by us at once, while frames for all of them are under way. */
  readonly #recent: Readonly<Record<CloseKind, Recent>> = {
    "reset by us": new Recent(1024),
    "ended": new Recent(64),
    "reset by peer": new Recent(64),
  };

  add(id: number, closing: CloseKind): void {
    this.#recent[closing].add(id);
  }

  /** Undefined: never opened, or forgotten. */
  find(id: number): CloseKind | undefined {
    if (this.#recent["reset by us"].has(id)) return "reset by us";
    if (this.#recent.ended.has(id)) return "ended";
    return this.#recent["reset by peer"].has(id) ? "reset by peer" : undefined;
  }
}

/** The last `limit` numbers. */
class Recent {
  readonly #numbers: number[] = [];
  readonly #limit: number;
  #next = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  add(number: number): void {
    this.#numbers[this.#next] = number;
    this.#next = (this.#next + 1) % this.#limit;
  }

  has(number: number): boolean {
    return this.#numbers.includes(number);
  }
}
