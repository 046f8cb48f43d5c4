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
        if (effect !== "") journal.amend(seq, `${effect} in the minute after`);
      }
    } catch {
      // The data plane is closed: nobody reads the effect.
    }
    this.#pending--;
  }
}

function measureOf({ kind, subject, text }: NewEvent, snapshot: Snapshot): Measure | undefined {
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
        return sharesText(
          trafficOf(before, after, ({ upstream }) => upstream === subject),
          ({ target }) => targetName(target, labels),
        );
      };
    }
    case "endpoint": {
      if (!/ (?:critical|removed)/.test(text)) return undefined;
      const isTarget = ({ target }: TrafficRowView) =>
        target !== "" && targetName(target, { name: "", datacenter }) === subject;
      return (before, after) => inUseText(trafficOf(before, after, isTarget));
    }
    default:
      return undefined;
  }
}

function refusedText(count: number): string {
  return count > 0 ? `${count} refused` : "";
}

/** Requests and connections of a caller, or of all (`*`), that intentions denied so far. */
function refusedOf(views: Views, caller: string): number {
  const isMeant = (one: { readonly direction: string; readonly caller: string }) =>
    one.direction === "inbound" && (caller === "*" || one.caller === caller);
  let count = 0;
  for (const { traffic: { rows, refusals } } of views) {
    for (const { faults = [] } of rows.filter(isMeant)) {
      for (const fault of faults) if (fault.code === "intention_denied") count += fault.count;
    }
    // Rows have no reasons of connections.
    for (const refusal of refusals.filter(isMeant)) {
      if (refusal.code === "intention_denied" && refusal.path === "") count += refusal.count;
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
    sum.requests += row.requests;
    sum.errors += row.errors;
  }
  const deltas: Delta[] = [];
  for (const row of after.flatMap(({ traffic }) => traffic.rows)) {
    if (row.direction !== "outbound" || !isMeant(row)) continue;
    const { requests = 0, errors = 0 } = old.get(keyOf(row)) ?? {};
    // The same row of another data path has nothing to be compared with.
    old.delete(keyOf(row));
    deltas.push({ row, requests: row.requests - requests, errors: row.errors - errors });
  }
  return deltas;
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
  const shares = [...names].map(([name, of]) => {
    return `${name} ${Math.round(sumOf(of).requests / all.requests * 100)} %`;
  });
  return `${shares.sort().join(", ")} of ${all.requests} requests, ${errorsOf(all.errors)}`;
}

function inUseText(deltas: readonly Delta[]): string {
  const { requests, errors } = sumOf(deltas);
  return requests === 0 ? "" : `${requests} requests to the instances in use, ${errorsOf(errors)}`;
}

function errorsOf(count: number): string {
  return `${count} error${count === 1 ? "" : "s"}`;
}
