/** The last events of the proxy: bounded, logged, and handed to those who follow. @module */

import type {
  Clock,
  EventKind,
  EventSeverity,
  Log,
  NewEvent,
  ProxyEvent,
  Timer,
} from "../base/mod.ts";

import { DaySums, type StoredSums } from "./day_sums.ts";

export const EVENTS_LIMIT = 1_000;
/** Longest texts; longer ones are cut. Peers and Consul choose parts of them. */
const SUBJECT_CHARS = 200;
const TEXT_CHARS = 600;
/** Events of one kind at once; more become one event that counts them. */
const BURST = 50;
/** One more of each kind is let through after this time. */
const REFILL_MS = 1_000;
/** After so long a burst is summed up. */
const SUM_MS = 5_000;

interface JournalOptions {
  readonly clock: Clock;
  readonly log: Log;
}

/** From an earlier process, oldest first. */
interface EarlierEvents {
  readonly events: readonly ProxyEvent[];
  readonly day: StoredSums;
}

/** Called after each new event, and with an event that was amended. */
type OnEvent = (changed?: ProxyEvent) => void;

/** Room for further events of one kind. */
interface Allowance {
  left: number;
  atMs: number;
  skipped: number;
  severity: EventSeverity;
  timer: Timer | undefined;
}

export class EventJournal {
  readonly #clock: Clock;
  readonly #log: Log;
  /** Oldest first. */
  #events: ProxyEvent[] = [];
  readonly day = new DaySums();
  readonly #followers = new Set<OnEvent>();
  readonly #allowances = new Map<EventKind, Allowance>();
  /** Numbers of events whose effect is still measured. */
  readonly #pending = new Set<number>();
  #lastSeq = 0;
  #earlierSeq = 0;

  constructor({ clock, log }: JournalOptions) {
    this.#clock = clock;
    this.#log = log;
  }

  /** Puts events before those of this process, which continue their numbers. Called before anybody follows. */
  restore({ events, day }: EarlierEvents): void {
    const own = this.#events;
    this.#events = events.slice(Math.max(0, events.length + own.length - EVENTS_LIMIT));
    // The numbers rise by 1, whatever the file says.
    this.#earlierSeq = this.#lastSeq = events.at(-1)?.seq ?? 0;
    const first = this.#lastSeq - this.#events.length;
    this.#events = this.#events.map((event, at) => ({ ...event, seq: first + at + 1 }));
    for (const event of own) this.#events.push({ ...event, seq: ++this.#lastSeq });
    this.day.restore(day, this.#clock.now());
  }

  /** Returns the number of the event; 0: it is only counted. `isPending`: {@link amend} follows. */
  readonly report = (event: NewEvent, { isPending = false } = {}): number => {
    const allowance = this.#allowanceOf(event.kind);
    if (allowance.left >= 1) {
      allowance.left--;
      return this.#add(event, isPending);
    }
    allowance.skipped++;
    if (RANK[event.severity ?? "info"] > RANK[allowance.severity]) {
      allowance.severity = event.severity ?? "info";
    }
    allowance.timer ??= this.#clock.after(SUM_MS, () => this.#sumUp(event.kind, allowance));
    return 0;
  };

  /** The effect of the event with this number is not known yet. */
  readonly isPending = (seq: number): boolean => this.#pending.has(seq);

  /** Adds an effect that is known later; `""`: it stays unknown. Nothing where the event is gone. */
  amend(seq: number, effect: string): void {
    this.#pending.delete(seq);
    const at = seq - (this.#events[0]?.seq ?? 0);
    const event = this.#events[at];
    if (!event) return;
    const all = [event.effect, effect].filter((text) => text !== "").join(", ");
    const changed = this.#events[at] = { ...event, effect: cut(all, TEXT_CHARS) };
    for (const onEvent of this.#followers) onEvent(changed);
  }

  /** Oldest first. */
  get events(): readonly ProxyEvent[] {
    return this.#events;
  }

  get lastSeq(): number {
    return this.#lastSeq;
  }

  /** The last event of an earlier process; 0: there is none. */
  get earlierSeq(): number {
    return this.#earlierSeq;
  }

  /** Until the returned function is called. */
  follow(onEvent: OnEvent): () => void {
    this.#followers.add(onEvent);
    return () => void this.#followers.delete(onEvent);
  }

  #add(reported: NewEvent, isPending = false): number {
    const { kind, subject, text, effect = "", severity = "info", isLogged } = reported;
    if (this.#events.length >= EVENTS_LIMIT) this.#events.shift();
    const event: ProxyEvent = {
      seq: ++this.#lastSeq,
      atMs: this.#clock.now(),
      kind,
      subject: cut(subject, SUBJECT_CHARS),
      text: cut(text, TEXT_CHARS),
      effect: cut(effect, TEXT_CHARS),
      severity,
    };
    this.#events.push(event);
    if (isPending) this.#pending.add(event.seq);
    this.day.add(event, event.atMs);
    if (!isLogged) {
      const fields = { subject: event.subject, change: event.text };
      this.#log.info(LINES[kind], { ...fields, effect: event.effect || undefined });
    }
    for (const onEvent of this.#followers) onEvent();
    return event.seq;
  }

  #allowanceOf(kind: EventKind): Allowance {
    const nowMs = this.#clock.monotonic();
    let found = this.#allowances.get(kind);
    if (!found) {
      found = { left: BURST, atMs: nowMs, skipped: 0, severity: "info", timer: undefined };
      this.#allowances.set(kind, found);
    }
    const refilled = Math.floor((nowMs - found.atMs) / REFILL_MS);
    found.left = Math.min(BURST, found.left + refilled);
    found.atMs += refilled * REFILL_MS;
    return found;
  }

  #sumUp(kind: EventKind, allowance: Allowance): void {
    const { skipped, severity } = allowance;
    allowance.timer = undefined;
    allowance.skipped = 0;
    allowance.severity = "info";
    const text = `${skipped} more events of this kind within ${SUM_MS / 1_000} s`;
    this.day.add({ kind, subject: "several", severity }, this.#clock.now(), skipped);
    this.#add({ kind, subject: "several", text, severity });
  }
}

const RANK: Readonly<Record<EventSeverity, number>> = { info: 0, warn: 1, error: 2 };

/** The log line of each kind. */
const LINES: Readonly<Record<EventKind, string>> = {
  intention: "intention changed",
  chain: "route changed",
  endpoint: "endpoint changed",
  protocol: "protocol changed",
  plugin: "plugin changed",
  certificate: "credentials changed",
  limit: "limit changed",
  source: "source changed",
  listener: "listener changed",
  secret: "secret changed",
  process: "process changed",
};

function cut(text: string, chars: number): string {
  return text.length > chars ? `${text.slice(0, chars)}...` : text;
}
