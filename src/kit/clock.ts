/** A clock that only a test moves; {@link FakeClock.jump} changes the wall clock alone. @module */

import type { Clock, Timer } from "../base/mod.ts";

interface Waiting {
  readonly dueMs: number;
  readonly fn: () => void;
}

export class FakeClock implements Clock {
  #wallOffsetMs: number;
  #monotonicMs = 0;
  readonly #waiting = new Set<Waiting>();

  constructor({ startMs = Date.UTC(2026, 10, 21, 7, 30) }: { readonly startMs?: number } = {}) {
    this.#wallOffsetMs = startMs;
  }

  now(): number {
    return this.#wallOffsetMs + this.#monotonicMs;
  }

  monotonic(): number {
    return this.#monotonicMs;
  }

  after(delayMs: number, fn: () => void): Timer {
    const dueMs = this.#monotonicMs + Math.max(delayMs, 0);
    const waiting: Waiting = { dueMs, fn };
    this.#waiting.add(waiting);
    return { cancel: () => void this.#waiting.delete(waiting) };
  }

  /** Timers that are set and neither fired nor cancelled. */
  get pending(): number {
    return this.#waiting.size;
  }

  /** How long until the next timer fires; `undefined` when none is set. */
  get nextInMs(): number | undefined {
    const next = this.#next();
    return next && next.dueMs - this.#monotonicMs;
  }

  /** Runs due timers, each at its own time, and all that waits only for promises, whose timers fire as well. */
  async advance(ms: number): Promise<void> {
    const endMs = this.#monotonicMs + ms;
    await settle();
    for (let next = this.#next(); next && next.dueMs <= endMs; next = this.#next()) {
      this.#run(next);
      await settle();
    }
    this.#monotonicMs = endMs;
    await settle();
  }

  /** {@link FakeClock.advance} without letting promises run in between. */
  advanceNow(ms: number): void {
    const endMs = this.#monotonicMs + ms;
    for (let next = this.#next(); next && next.dueMs <= endMs; next = this.#next()) this.#run(next);
    this.#monotonicMs = endMs;
  }

  /** Sets the wall clock forward or back; monotonic time and timers do not notice. */
  jump(ms: number): void {
    this.#wallOffsetMs += ms;
  }

  #next(): Waiting | undefined {
    let next: Waiting | undefined;
    // Timers due at the same time run in the order in which they were set: a set keeps it.
    for (const waiting of this.#waiting) if (!next || waiting.dueMs < next.dueMs) next = waiting;
    return next;
  }

  #run(waiting: Waiting): void {
    this.#waiting.delete(waiting);
    this.#monotonicMs = Math.max(this.#monotonicMs, waiting.dueMs);
    waiting.fn();
  }
}

/** Runs everything that waits only for promises, not for time or I/O. */
export function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
