/**
 * The streams that were closed last, and how: a late frame is allowed after a reset by us, and an error on
 * a stream that both sides have ended (RFC 9113 5.1).
 *
 * @module
 */

export type CloseKind =
  /** Both sides had sent their end. */
  | "ended"
  | "reset by peer"
  /** The peer may not know yet. */
  | "reset by us";

/** Streams kept of each kind. Many may be reset at once, while frames for all of them are under way. */
const KEPT: Readonly<Record<CloseKind, number>> = {
  "ended": 64,
  "reset by peer": 64,
  "reset by us": 1024,
};

export class ClosedStreams {
  readonly #ended = new Recent(KEPT.ended);
  readonly #byPeer = new Recent(KEPT["reset by peer"]);
  readonly #byUs = new Recent(KEPT["reset by us"]);

  add(id: number, closing: CloseKind): void {
    if (closing === "ended") this.#ended.add(id);
    else if (closing === "reset by us") this.#byUs.add(id);
    else this.#byPeer.add(id);
  }

  /** Undefined: never opened, or forgotten. */
  find(id: number): CloseKind | undefined {
    if (this.#byUs.has(id)) return "reset by us";
    if (this.#ended.has(id)) return "ended";
    return this.#byPeer.has(id) ? "reset by peer" : undefined;
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
