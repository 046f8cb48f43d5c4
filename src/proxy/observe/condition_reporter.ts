/**
 * Tells the main thread about conditions of this data path that begin and end. Those that flap are counted, so
 * that a hostile peer floods neither the log nor the events. Nothing runs while nothing changes.
 *
 * @module
 */

import type {
  Clock,
  ConditionChange,
  Conditions,
  EventKind,
  NewEvent,
  TakeConditions,
  Timer,
} from "../../base/mod.ts";

const FLUSH_MS = 200;
const PERIOD_MS = 60_000;
/** Beginnings of one condition that are told in full within a period. */
const TOLD_PER_PERIOD = 3;
/** Conditions at a time; further ones are counted by kind. */
const KEYS_LIMIT = 500;
/** Changes that wait for the main thread; further beginnings are only counted. */
const QUEUE_LIMIT = 1_000;

interface Condition {
  /** Several endpoints of one name may be ejected. */
  depth: number;
  /** Beginnings of this period that were told. */
  told: number;
  /** Those that were not. */
  skipped: number;
  latest: NewEvent;
  /** The main thread knows that it is on. */
  isTold: boolean;
  refused: number;
}

export class ConditionReporter implements Conditions {
  readonly #clock: Pick<Clock, "after">;
  readonly #take: TakeConditions;
  readonly #known = new Map<string, Condition>();
  readonly #overflow = new Map<EventKind, number>();
  #queue: ConditionChange[] = [];
  #isSending = false;
  #flushTimer: Timer | undefined;
  #periodTimer: Timer | undefined;

  constructor(clock: Pick<Clock, "after">, take: TakeConditions) {
    this.#clock = clock;
    this.#take = take;
  }

  began(key: string, event: NewEvent): boolean {
    this.#nextPeriod();
    let known = this.#known.get(key);
    if (!known) {
      if (this.#known.size >= KEYS_LIMIT) {
        this.#overflow.set(event.kind, (this.#overflow.get(event.kind) ?? 0) + 1);
        return false;
      }
      known = { depth: 0, told: 0, skipped: 0, latest: event, isTold: false, refused: 0 };
      this.#known.set(key, known);
    }
    known.depth++;
    known.latest = event;
    if (known.told >= TOLD_PER_PERIOD || this.#queue.length >= QUEUE_LIMIT) {
      known.skipped++;
      return false;
    }
    known.told++;
    known.isTold = true;
    this.#send({ key, isOn: true, times: 1, refused: 0, event });
    return true;
  }

  ended(key: string, event?: NewEvent, refused = 0): void {
    const known = this.#known.get(key);
    if (!known || known.depth === 0) return;
    known.refused += refused;
    if (--known.depth > 0 || !known.isTold) return;
    known.isTold = false;
    this.#send({ key, isOn: false, times: 1, refused: known.refused, event });
    known.refused = 0;
  }

  close(): void {
    this.#flushTimer?.cancel();
    this.#periodTimer?.cancel();
  }

  #endPeriod(): void {
    this.#periodTimer = undefined;
    for (const [key, known] of this.#known) {
      const { depth, skipped, latest: event, refused } = known;
      if (skipped > 0) {
        known.isTold = depth > 0;
        this.#send({ key, isOn: known.isTold, times: skipped, refused, event });
        known.refused = 0;
      }
      if (known.told + skipped === 0 && depth === 0) this.#known.delete(key);
      else if (known.told + skipped > 0) this.#nextPeriod();
      known.told = known.skipped = 0;
    }
    for (const [kind, count] of this.#overflow) {
      const text = `${count} more conditions of this kind within ${PERIOD_MS / 1_000} s`;
      const event: NewEvent = { kind, subject: "several", text, severity: "warn" };
      this.#send({ key: `more ${kind}`, isOn: false, times: 1, refused: 0, event });
    }
    this.#overflow.clear();
  }

  #nextPeriod(): void {
    this.#periodTimer ??= this.#clock.after(PERIOD_MS, () => this.#endPeriod());
  }

  #send(change: ConditionChange): void {
    this.#queue.push(change);
    this.#flushTimer ??= this.#clock.after(FLUSH_MS, () => this.#flush());
  }

  #flush(): void {
    this.#flushTimer = undefined;
    if (this.#isSending || this.#queue.length === 0) return;
    const changes = this.#queue;
    this.#queue = [];
    this.#isSending = true;
    const taken = () => {
      this.#isSending = false;
      if (this.#queue.length > 0) this.#flush();
    };
    // A main thread that is gone ends this thread, too.
    this.#take(changes).then(taken, taken);
  }
}
