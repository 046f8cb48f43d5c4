/**
 * A set of members that come and go, in no order; each member has its index.
 *
 * A `Set` or `Map` of JavaScriptCore moves to a new table whenever deleted members fill the old one, and
 * the old one links to the new one for the sake of open iterators. Once a collection of young objects has
 * promoted a table, all tables after it and their members are kept until the next full collection:
 * measured, two fifths of all garbage of requests.
 *
 * @module
 */

export interface BagMember {
  /** Its index in the one bag that it is in; negative: in none. */
  place: number;
}

/** Index of a member in no bag. */
export const NO_PLACE = -1;

export class Bag<T extends BagMember> {
  readonly #members: T[] = [];

  get size(): number {
    return this.#members.length;
  }

  /** Adds a member that is in no bag. */
  add(member: T): void {
    member.place = this.#members.length;
    this.#members.push(member);
  }

  /** Does nothing for a member in no bag. */
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

  all(): T[] {
    return this.#members.slice();
  }
}
