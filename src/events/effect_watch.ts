/** Effects that show later: what changed for the traffic in the minute after an event. @module */

import type { Clock, NewEvent } from "../base/mod.ts";
import type { DataView, TrafficRowView } from "../proxy/mod.ts";
import type { Snapshot } from "../snapshot/mod.ts";
import { targetName } from "./chain_events.ts";
import { deniedSince, dueTo } from "./denied_since.ts";
import type { EventJournal } from "./journal.ts";

const AFTER_MS = 60_000;
/** Snapshots whose effects are measured at a time; those of further ones are not. */
const PENDING_LIMIT = 10;

type Views = readonly Pick<DataView, "traffic">[];

interface EffectWatchOptions {
  readonly clock: Pick<Clock, "after" | "now">;
  readonly journal: EventJournal;
  /** The data paths that answer in time. */
  readonly views: () => Promise<Views>;
}

/** The effect of an event, from the traffic before and after. */
type Measure = (before: Views, after: Views) => string;

/** An event whose effect is measured. */
interface Measured {
  readonly seq: number;
  readonly measure: Measure;
}

export class EffectWatch {
  readonly #options: EffectWatchOptions;
  #pending = 0;

  constructor(options: EffectWatchOptions) {
    this.#options = options;
  }

  /** Reports the events of `after`, which came into force in place of `before`. */
  report(events: readonly NewEvent[], { before, after }: Change): void {
    const { clock, journal } = this.#options;
    const isFull = this.#pending >= PENDING_LIMIT;
    const facts = { before, after, changedAtMs: clock.now(), taken: new Set<string>() };
    const measured = events.flatMap((event) => {
      const measure = before && !isFull ? measureOf(event, { ...facts, before }) : undefined;
      const seq = journal.report(event, { isPending: measure !== undefined });
      return measure && seq > 0 ? [{ seq, measure }] : [];
    });
    if (measured.length > 0) void this.#measure(measured);
  }

  /** Never rejects. */
  async #measure(measured: readonly Measured[]): Promise<void> {
    const { clock, journal, views } = this.#options;
    this.#pending++;
    const effects = new Map<number, string>();
    try {
      const before = await views();
      const later = Promise.withResolvers<void>();
      clock.after(AFTER_MS, later.resolve);
      await later.promise;
      const after = await views();
      for (const { seq, measure } of measured) effects.set(seq, measure(before, after));
    } catch {
      // The data plane is closed: nobody reads the effect.
    }
    for (const { seq } of measured) journal.amend(seq, effects.get(seq) ?? "");
    this.#pending--;
  }
}

interface Change {
  /** `undefined`: there was none, and nothing is measured. */
  readonly before: Snapshot | undefined;
  readonly after: Snapshot;
}

interface ChangeFacts {
  readonly before: Snapshot;
  readonly after: Snapshot;
  /** Wall clock. */
  readonly changedAtMs: number;
  /** Denials that an event before has counted. */
  readonly taken: Set<string>;
}

function measureOf(
  { kind, subject, text, effect = "" }: NewEvent,
  { before: was, after: now, changedAtMs, taken }: ChangeFacts,
): Measure | undefined {
  const { datacenter } = now;
  switch (kind) {
    case "intention": {
      const isDue = dueTo(subject, { before: was, after: now });
      return (before, after) =>
        `${deniedSince([before, after], { isDue, changedAtMs, taken }) || "none"} refused${LATER}`;
    }
    case "chain": {
      if (!text.startsWith("splitter ")) return undefined;
      return (before, after) => {
        const labels = { name: subject.replace(/^.*:|\?.*$/g, ""), datacenter };
        const route = routeOf(text);
        const isMeant = (row: TrafficRowView) =>
          row.upstream === subject && (route === undefined || row.route === route);
        const shares = sharesText(
          trafficOf(before, after, isMeant),
          ({ target }) => targetName(target, labels),
        );
        return shares === NO_REQUESTS ? shares : shares + errorsBefore(before, isMeant);
      };
    }
    case "endpoint": {
      if (!/ (?:critical|removed)/.test(text)) return undefined;
      const isTarget = ({ target }: TrafficRowView) =>
        target !== "" && targetName(target, { name: "", datacenter }) === subject;
      const service = subject.split(" ")[0]?.split(".").at(-1);
      const isUnserved = ({ target, upstream }: TrafficRowView) =>
        target === "" && upstream.replace(/^.*:|\?.*$/g, "") === service;
      const isOut = effect.startsWith("no usable instance");
      return (before, after) =>
        isOut
          ? failedText(trafficOf(before, after, (row) => isTarget(row) || isUnserved(row)))
          : inUseText(trafficOf(before, after, isTarget));
    }
    default:
      return undefined;
  }
}

/** As rows name it: `""` is the default route; `undefined`: the chain has one route. */
function routeOf(text: string): string | undefined {
  const [, name] = /^splitter [^\s,]+, route ([^\s:]+)/.exec(text) ?? [];
  return name === "default" ? "" : name;
}

const LATER = " in the minute after";
const NO_REQUESTS = `no requests${LATER}`;

interface Delta {
  readonly row: TrafficRowView;
  readonly requests: number;
  readonly errors: number;
}

/** Outbound requests and connections that ended meanwhile, by row of each data path. */
function trafficOf(
  before: Views,
  after: Views,
  isMeant: (row: TrafficRowView) => boolean,
): readonly Delta[] {
  const old = new Map<string, { requests: number; errors: number }>();
  for (const row of before.flatMap(({ traffic }) => traffic.rows)) {
    const sum = old.get(keyOf(row)) ?? { requests: 0, errors: 0 };
    old.set(keyOf(row), sum);
    const retried = retriedOf(row);
    sum.requests += row.requests - retried;
    sum.errors += row.errors - retried;
  }
  const deltas: Delta[] = [];
  for (const row of after.flatMap(({ traffic }) => traffic.rows)) {
    if (row.direction !== "outbound" || !isMeant(row)) continue;
    const { requests = 0, errors = 0 } = old.get(keyOf(row)) ?? {};
    // The same row of another data path has nothing to be compared with.
    old.delete(keyOf(row));
    const retried = retriedOf(row);
    deltas.push({
      row,
      requests: row.requests - retried - requests,
      errors: row.errors - retried - errors,
    });
  }
  return deltas;
}

/** Attempts whose request went on at another endpoint. */
function retriedOf({ faults = [] }: TrafficRowView): number {
  return faults.find(({ code }) => code === "retried")?.count ?? 0;
}

function keyOf({ caller, upstream, target, endpoint, route }: TrafficRowView): string {
  return [caller, upstream, target, endpoint, route].join("\u0000");
}

function sumOf(deltas: readonly Delta[]): Pick<Delta, "requests" | "errors"> {
  return {
    requests: Math.max(0, deltas.reduce((sum, { requests }) => sum + requests, 0)),
    errors: Math.max(0, deltas.reduce((sum, { errors }) => sum + errors, 0)),
  };
}

/** `v1 48 %, v2 52 % of 1204 requests, 3 errors`. */
function sharesText(deltas: readonly Delta[], nameOf: (row: TrafficRowView) => string): string {
  const all = sumOf(deltas);
  if (all.requests === 0) return NO_REQUESTS;
  const names = new Map<string, Delta[]>();
  for (const delta of deltas) {
    const name = nameOf(delta.row) || "no instance";
    names.set(name, [...names.get(name) ?? [], delta]);
  }
  const shares = [...names].flatMap(([name, of]) => {
    const share = Math.round(sumOf(of).requests / all.requests * 100);
    return share > 0 ? [`${name} ${share} %`] : [];
  });
  return `${shares.sort().join(", ")} of ${all.requests} requests, ${errorsOf(all.errors)}${LATER}`;
}

/** From the recent numbers, which are of one to two minutes; `""`: there were none, or for less than a minute. */
function errorsBefore(views: Views, isMeant: (row: TrafficRowView) => boolean): string {
  let errors = 0;
  for (const { traffic: { rows, recentMs } } of views) {
    if (recentMs < AFTER_MS) return "";
    for (const row of rows) {
      if (row.direction !== "outbound" || !isMeant(row)) continue;
      // Recent errors include attempts that were retried.
      if (retriedOf(row) > 0) return "";
      errors += (row.recent?.errors ?? 0) * AFTER_MS / recentMs;
    }
  }
  const count = Math.round(errors);
  return count > 0 ? `, about ${count} in the minute before` : "";
}

function failedText(deltas: readonly Delta[]): string {
  const { requests, errors } = sumOf(deltas);
  return requests === 0 ? NO_REQUESTS : `${errors} requests failed${LATER}`;
}

function inUseText(deltas: readonly Delta[]): string {
  const { requests, errors } = sumOf(deltas);
  if (requests === 0) return NO_REQUESTS;
  return `${requests} requests to the instances in use, ${errorsOf(errors)}${LATER}`;
}

function errorsOf(count: number): string {
  return `${count} error${count === 1 ? "" : "s"}`;
}
