/**
 * The streams that ended last, so that a frame which was on its way is told from one against the protocol
 * (RFC 9113 5.1).
 *
 * @module
 */

export type Closing =
  /** Both sides had sent their end. */
  | "ended"
  | "reset by peer"
  /** By us: the peer may not know yet. */
  | "reset by us";

const KEPT = 128;

export class ClosedStreams {
  readonly #ids: number[] = [];
  readonly #closings: Closing[] = [];
  #next = 0;

  add(id: number, closing: Closing): void {
    this.#ids[this.#next] = id;
    this.#closings[this.#next] = closing;
    this.#next = (this.#next + 1) % KEPT;
  }

  /** Undefined: never opened, or too long ago. */
  find(id: number): Closing | undefined {
    const at = this.#ids.lastIndexOf(id);
    return at < 0 ? undefined : this.#closings[at];
  }
}
