/**
 * Many deadlines behind one timer. Deadlines of one duration end in the order they began, so each duration
 * is a list that is only read from its head: setting and cancelling are a few pointer moves, cheap enough
 * for every connection. Late by at most a tenth of a second.
 *
 * @module
 */

import type { Clock, Timer } from "./clock.ts";

export interface Deadline {
  cancel(): void;
}

const GRANULARITY_MS = 100;

class Entry implements Deadline {
  readonly atMs: number;
  fn: () => void;
  readonly list: List;
  previous: Entry | undefined;
  next: Entry | undefined;
  #linked = true;

  constructor(list: List, atMs: number, fn: () => void) {
    this.list = list;
    this.atMs = atMs;
    this.fn = fn;
  }

  cancel(): void {
    if (!this.#linked) return;
    this.#linked = false;
    if (this.previous) this.previous.next = this.next;
    else this.list.head = this.next;
    if (this.next) this.next.previous = this.previous;
    else this.list.tail = this.previous;
    // A removed deadline must not keep younger ones and their callbacks in memory.
    this.previous = this.next = undefined;
    this.fn = NOTHING;
  }
}

const NOTHING = () => {};

interface List {
  head: Entry | undefined;
  tail: Entry | undefined;
}

export class Deadlines {
  readonly #clock: Clock;
  readonly #lists = new Map<number, List>();
  #timer: Timer | undefined;
  #timerAtMs = Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `fn` once after `delayMs` unless cancelled. */
  after(delayMs: number, fn: () => void): Deadline {
    let list = this.#lists.get(delayMs);
    if (!list) this.#lists.set(delayMs, list = { head: undefined, tail: undefined });
    const atMs = this.#clock.monotonic() + delayMs;
    const entry = new Entry(list, atMs, fn);
    entry.previous = list.tail;
    if (list.tail) list.tail.next = entry;
    else list.head = entry;
    list.tail = entry;
    this.#arm(atMs);
    return entry;
  }

  #arm(atMs: number): void {
    // An armed timer that fires a little later, or earlier, serves this deadline as well.
    if (this.#timerAtMs <= atMs + GRANULARITY_MS) return;
    this.#timer?.cancel();
    this.#timerAtMs = atMs + GRANULARITY_MS;
    const delayMs = this.#timerAtMs - this.#clock.monotonic();
    this.#timer = this.#clock.after(delayMs, () => this.#expire());
  }

  #expire(): void {
    this.#timer = undefined;
    this.#timerAtMs = Infinity;
    const now = this.#clock.monotonic();
    try {
      for (const list of this.#lists.values()) {
        while (list.head && list.head.atMs <= now) {
          const { fn } = list.head;
          list.head.cancel();
          fn();
        }
      }
    } finally {
      // Also when one of them threw: the others are still due.
      this.#armEarliest();
    }
  }

  #armEarliest(): void {
    let earliestMs = Infinity;
    for (const [delayMs, list] of this.#lists) {
      if (list.head) earliestMs = Math.min(earliestMs, list.head.atMs);
      else this.#lists.delete(delayMs);
    }
    if (earliestMs < Infinity) this.#arm(earliestMs);
  }
}
