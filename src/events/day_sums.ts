/** Numbers of events of the last day by kind, severity and subject. @module */

import * as v from "valibot";
import { EVENT_KINDS, type EventKind, type EventSeverity, type NewEvent } from "../base/mod.ts";

const HOUR_MS = 3_600_000;
const HOURS = 24;
/** Subjects that are counted apart within an hour; further ones count as `several`. */
const SUBJECTS_LIMIT = 50;
const SUBJECTS_SHOWN = 10;
const OTHERS = "several";

const Count = v.pipe(v.number(), v.integer(), v.minValue(0));

const HourSums = v.object({
  /** Hours since 1970. */
  hour: Count,
  /** `[info, warn, error]` by kind; a later version may have further kinds. */
  kinds: v.pipe(
    v.record(v.pipe(v.string(), v.maxLength(40)), v.tuple([Count, Count, Count])),
    v.maxEntries(40),
  ),
  /** By `kind subject`. */
  subjects: v.pipe(
    v.record(v.pipe(v.string(), v.maxLength(300)), Count),
    v.maxEntries(SUBJECTS_LIMIT + EVENT_KINDS.length),
  ),
});

export const StoredSums = v.pipe(v.array(HourSums), v.maxLength(HOURS + 1));
export type StoredSums = v.InferOutput<typeof StoredSums>;

export interface KindSum extends Readonly<Record<EventSeverity, number>> {
  readonly kind: EventKind;
}

export interface DaySumsShown {
  /** Most first. */
  readonly kinds: readonly KindSum[];
  /** The subjects with most events, most first. */
  readonly subjects: readonly {
    readonly kind: string;
    readonly subject: string;
    readonly count: number;
  }[];
}

const SEVERITIES = { info: 0, warn: 1, error: 2 } as const;

type HourSums = StoredSums[number];

export class DaySums {
  /** Oldest first; at most a day and the hour that is not over. */
  #hours: HourSums[] = [];

  add(
    { kind, subject, severity = "info" }: Pick<NewEvent, "kind" | "subject" | "severity">,
    nowMs: number,
    count = 1,
  ): void {
    const { kinds, subjects } = this.#hourOf(nowMs);
    const sums = kinds[kind] ??= [0, 0, 0];
    sums[SEVERITIES[severity]] += count;
    const key = `${kind} ${subject}`;
    const isFull = subjects[key] === undefined && Object.keys(subjects).length >= SUBJECTS_LIMIT;
    const counted = isFull ? `${kind} ${OTHERS}` : key;
    subjects[counted] = (subjects[counted] ?? 0) + count;
  }

  restore(stored: StoredSums, nowMs: number): void {
    const own = this.#hours;
    this.#hours = stored.map((hour) => structuredClone(hour));
    for (const { hour, kinds, subjects } of own) {
      const into = this.#hourOf(hour * HOUR_MS);
      for (const [kind, sums] of Object.entries(kinds)) {
        const all = into.kinds[kind] ??= [0, 0, 0];
        for (const [at, sum] of sums.entries()) all[at as 0 | 1 | 2] += sum;
      }
      for (const [key, sum] of Object.entries(subjects)) {
        into.subjects[key] = (into.subjects[key] ?? 0) + sum;
      }
    }
    this.#forget(nowMs);
  }

  stored(nowMs: number): StoredSums {
    this.#forget(nowMs);
    return this.#hours;
  }

  shown(nowMs: number): DaySumsShown {
    this.#forget(nowMs);
    const kinds = EVENT_KINDS.map((kind) => {
      const sum = (severity: EventSeverity) =>
        this.#hours.reduce((all, hour) => all + (hour.kinds[kind]?.[SEVERITIES[severity]] ?? 0), 0);
      return { kind, info: sum("info"), warn: sum("warn"), error: sum("error") };
    }).filter((sums) => allOf(sums) > 0).sort((a, b) => allOf(b) - allOf(a));
    const counts = new Map<string, number>();
    for (const { subjects } of this.#hours) {
      for (const [key, count] of Object.entries(subjects)) {
        counts.set(key, (counts.get(key) ?? 0) + count);
      }
    }
    const subjects = [...counts].sort(([, a], [, b]) => b - a).slice(0, SUBJECTS_SHOWN)
      .map(([key, count]) => {
        const end = key.indexOf(" ");
        return { kind: key.slice(0, end), subject: key.slice(end + 1), count };
      });
    return { kinds, subjects };
  }

  #hourOf(nowMs: number): HourSums {
    const hour = Math.floor(nowMs / HOUR_MS);
    const last = this.#hours.at(-1);
    // A clock that was set back goes on counting in the last hour.
    if (last && last.hour >= hour) return this.#hours.find((one) => one.hour === hour) ?? last;
    const made: HourSums = { hour, kinds: {}, subjects: {} };
    this.#hours.push(made);
    this.#forget(nowMs);
    return made;
  }

  #forget(nowMs: number): void {
    const first = Math.floor(nowMs / HOUR_MS) - HOURS;
    this.#hours = this.#hours.filter(({ hour }) => hour >= first);
  }
}

function allOf({ info, warn, error }: KindSum): number {
  return info + warn + error;
}
