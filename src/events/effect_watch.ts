/** Effects that show later: what changed for the traffic in the minute after an event. @module */

import type { Clock, NewEvent } from "../base/mod.ts";
import type { DataView, TrafficRowView } from "../proxy/mod.ts";
import type { Snapshot } from "../snapshot/mod.ts";
import { targetName } from "./chain_events.ts";
import type { EventJournal } from "./journal.ts";

const AFTER_MS = 60_000;
/** Snapshots whose effects are measured at a time; those of further ones are not. */
const PENDING_LIMIT = 10;

type Views = readonly Pick<DataView, "traffic">[];

interface EffectWatchOptions {
  readonly clock: Pick<Clock, "after">;
  readonly journal: EventJournal;
  /** The data paths that answer in time. */
  readonly views: () => Promise<Views>;
}

/** The effect of an event, from the traffic before and after; `""`: none. */
type Measure = (before: Views, after: Views) => string;

export class EffectWatch {
  readonly #options: EffectWatchOptions;
  #pending = 0;

  constructor(options: EffectWatchOptions) {
    this.#options = options;
  }

  /** Reports the events of `snapshot`, which came into force. */
  report(events: readonly NewEvent[], snapshot: Snapshot): void {
    const { journal } = this.#options;
    const measured = events.flatMap((event) => {
      const seq = journal.report(event);
      const measure = measureOf(event, snapshot);
      return measure && seq > 0 ? [{ seq, measure }] : [];
    });
    if (measured.length > 0 && this.#pending < PENDING_LIMIT) void this.#measure(measured);
  }

  /** Never rejects. */
  async #measure(
    measured: readonly { readonly seq: number; readonly measure: Measure }[],
  ): Promise<void> {
    const { clock, journal, views } = this.#options;
    this.#pending++;
    try {
      const before = await views();
      const later = Promise.withResolvers<void>();
      clock.after(AFTER_MS, later.resolve);
      await later.promise;
      const after = await views();
      for (const { seq, measure } of measured) {
        const effect = measure(before, after);
        if (effect !== "") journal.amend(seq, effect);
      }
    } catch {
      // The data plane is closed: nobody reads the effect.
    }
    this.#pending--;
  }
}

function measureOf(
  { kind, subject, text, effect = "" }: NewEvent,
  snapshot: Snapshot,
): Measure | undefined {
  const { datacenter } = snapshot;
  switch (kind) {
    case "intention": {
      const [pair = ""] = subject.split(" => ");
      const caller = pair.slice(pair.lastIndexOf("/") + 1);
      return (before, after) => refusedText(refusedOf(after, caller) - refusedOf(before, caller));
    }
    case "chain": {
      if (!text.startsWith("splitter ")) return undefined;
      return (before, after) => {
        const labels = { name: subject.replace(/^.*:|\?.*$/g, ""), datacenter };
        const isMeant = ({ upstream }: TrafficRowView) => upstream === subject;
        const shares = sharesText(
          trafficOf(before, after, isMeant),
          ({ target }) => targetName(target, labels),
        );
        return shares && shares + errorsBefore(before, isMeant);
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

function refusedText(count: number): string {
  return count > 0 ? `${count} refused in the minute after` : "";
}

/** Requests and connections of a caller, or of all (`*`), that intentions denied so far. The rows have both. */
function refusedOf(views: Views, caller: string): number {
  const isMeant = (one: { readonly direction: string; readonly caller: string }) =>
    one.direction === "inbound" && (caller === "*" || one.caller === caller);
  let count = 0;
  for (const { traffic: { rows } } of views) {
    for (const { faults = [] } of rows.filter(isMeant)) {
      for (const fault of faults) if (fault.code === "intention_denied") count += fault.count;
    }
  }
  return count;
}

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

/** `v1 48 %, v2 52 % of 1204 requests, 3 errors`; nothing without requests. */
function sharesText(deltas: readonly Delta[], nameOf: (row: TrafficRowView) => string): string {
  const all = sumOf(deltas);
  if (all.requests === 0) return "";
  const names = new Map<string, Delta[]>();
  for (const delta of deltas) {
    const name = nameOf(delta.row) || "no instance";
    names.set(name, [...names.get(name) ?? [], delta]);
  }
  const shares = [...names].flatMap(([name, of]) => {
    const share = Math.round(sumOf(of).requests / all.requests * 100);
    return share > 0 ? [`${name} ${share} %`] : [];
  });
  return `${shares.sort().join(", ")} of ${all.requests} requests, ${
    errorsOf(all.errors)
  } in the minute after`;
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
  return requests === 0 ? "" : `${errors} requests failed in the minute after`;
}

function inUseText(deltas: readonly Delta[]): string {
  const { requests, errors } = sumOf(deltas);
  if (requests === 0) return "";
  return `${requests} requests to the instances in use, ${errorsOf(errors)} in the minute after`;
}

function errorsOf(count: number): string {
  return `${count} error${count === 1 ? "" : "s"}`;
}
