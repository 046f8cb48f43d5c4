/**
 * One outage is one fault of many secrets: lines about a few of them say so, and who the others are is
 * shown elsewhere.
 *
 * @module
 */

import type { Clock } from "../../base/mod.ts";

/** Secrets that are told of one thing within {@link CROWD_MS}; what a person reads. */
const CROWD_LIMIT = 10;
const CROWD_MS = 10_000;
const THINGS_LIMIT = 100;

export class Crowd<Member> {
  readonly #clock: Clock;
  readonly #things = new Map<string, { readonly sinceMs: number; readonly told: Set<Member> }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** How loudly `thing` is told of `member`. Who is told of once is told of again. */
  next(thing: string, member: Member): "told" | "last" | "quiet" {
    const { told } = this.#now(thing);
    if (told.has(member)) return "told";
    if (told.size >= CROWD_LIMIT) return "quiet";
    told.add(member);
    return told.size === CROWD_LIMIT ? "last" : "told";
  }

  #now(thing: string): { readonly told: Set<Member> } {
    const nowMs = this.#clock.monotonic();
    const found = this.#things.get(thing);
    if (found && nowMs - found.sinceMs < CROWD_MS) return found;
    this.#things.delete(thing);
    const [oldest] = this.#things.keys();
    if (this.#things.size >= THINGS_LIMIT && oldest !== undefined) this.#things.delete(oldest);
    const begun = { sinceMs: nowMs, told: new Set<Member>() };
    this.#things.set(thing, begun);
    return begun;
  }
}
