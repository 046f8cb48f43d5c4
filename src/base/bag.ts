/**
 * Members that come and go, in no order; each knows its place.
 *
 * A `Set` or `Map` of JavaScriptCore moves to a new table whenever members that have left fill the old one,
 * and the old one leads to the new for the sake of iterators that may stand in it. Where a collection of
 * young objects has once taken a table for old, all tables after it, and what was in them, are kept until
 * the next collection of everything: measured, two fifths of all that requests leave behind.
 *
 * @module
 */

export interface BagMember {
  /** For the one bag that it is in; negative: in none. */
  place: number;
}

/** What a member begins with. */
export const NO_PLACE = -1;

export class Bag<T extends BagMember> {
  readonly #members: T[] = [];

  get size(): number {
    return this.#members.length;
  }

  /** One that is in none. */
  add(member: T): void {
    member.place = this.#members.length;
    this.#members.push(member);
  }

  /** Nothing happens where it is in none. */
  delete(member: T): void {
    const { place } = member;
    if (place < 0) return;
    const last = this.#members.pop();
    if (last && last !== member) {
      this.#members[place] = last;
      last.place = place;
    }
    member.place = NO_PLACE;
  }

  /** Of now. */
  all(): T[] {
    return this.#members.slice();
  }
}
