/**
 * Rates and latencies of the last seconds: the traffic table has totals only, so that an open page keeps
 * what they were. Nothing is kept while no page is open.
 *
 * @module
 */

import { noTraffic, type TrafficCounts, trafficQuantileMs } from "../../base/mod.ts";
import type { TrafficRowView, TrafficView } from "../../proxy/mod.ts";

/** The traffic of a caller, an upstream, an endpoint or a route. */
export interface FlowShown {
  /** Requests, and connections without HTTP, that ended in the period. */
  readonly perSecond: number;
  /** 0 to 1. */
  readonly errorShare: number;
  /** 0: nothing ended in the period. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Since the start. */
  readonly requests: number;
  readonly errors: number;
  /** Requests and connections under way. */
  readonly open: number;
}

export interface TrafficShown {
  /** The period that rates and latencies are of. */
  readonly periodMs: number;
  /** The period is the whole life of the proxy: there is no earlier reading to compare with. */
  readonly isWhole: boolean;
  /** By {@link flowKey}. */
  readonly flows: ReadonlyMap<string, FlowShown>;
  /** Requests per second, oldest first, one for each reading. */
  readonly inbound: readonly number[];
  readonly outbound: readonly number[];
}

type FlowKind = "inbound" | "outbound" | "caller" | "upstream" | "endpoint" | "route";

interface Sums {
  readonly requests: number;
  readonly errors: number;
  readonly open: number;
  readonly counts: TrafficCounts;
}

interface Reading {
  readonly atMs: number;
  readonly sums: ReadonlyMap<string, Sums>;
}

const PERIOD_MS = 10_000;
/** Readings of several viewers that follow each other faster than this count as one. */
const MIN_GAP_MS = 1_500;
/** Readings after a longer pause do not continue the earlier ones. */
const MAX_GAP_MS = 20_000;
/** Readings in a line of rates: three minutes at one each two seconds. */
const LINE_POINTS = 90;
/** Flows that are kept; the traffic table itself is bounded, too. */
const MAX_FLOWS = 500;

/** `names`: of the caller; of the upstream; its target and address; the upstream and its route. */
export function flowKey(kind: FlowKind, ...names: readonly string[]): string {
  return [kind, ...names].join("\u0000");
}

export const NO_FLOW: FlowShown = {
  perSecond: 0,
  errorShare: 0,
  p50Ms: 0,
  p99Ms: 0,
  requests: 0,
  errors: 0,
  open: 0,
};

export class TrafficHistory {
  /** Oldest first; one of them is older than the period, where there is one. */
  #readings: Reading[] = [];
  #inbound: number[] = [];
  #outbound: number[] = [];

  /** `nowMs`: monotonic. */
  read(
    { rows, past, sinceMs }: Pick<TrafficView, "rows" | "past" | "sinceMs">,
    nowMs: number,
  ): TrafficShown {
    const now = { atMs: nowMs, sums: sumsOf(rows, past) };
    const last = this.#readings.at(-1);
    if (!last || nowMs - last.atMs > MAX_GAP_MS) this.#forget();
    if (!last || nowMs - last.atMs >= MIN_GAP_MS) this.#keep(now);
    const [first] = this.#readings;
    const before = first && nowMs - first.atMs >= MIN_GAP_MS ? first : undefined;
    const periodMs = Math.max(1, before ? nowMs - before.atMs : sinceMs);
    const flows = [...now.sums].map(([key, sums]) =>
      [key, flowOf(sums, before?.sums.get(key), periodMs)] as const
    );
    return {
      periodMs,
      isWhole: !before,
      flows: new Map(flows),
      inbound: [...this.#inbound],
      outbound: [...this.#outbound],
    };
  }

  #forget(): void {
    this.#readings = [];
    this.#inbound = [];
    this.#outbound = [];
  }

  #keep(now: Reading): void {
    const last = this.#readings.at(-1);
    if (last) {
      const rate = (kind: "inbound" | "outbound") => {
        const [sums, before] = [now, last].map((one) => one.sums.get(flowKey(kind)));
        return sums ? flowOf(sums, before, now.atMs - last.atMs).perSecond : 0;
      };
      this.#inbound = [...this.#inbound, rate("inbound")].slice(-LINE_POINTS);
      this.#outbound = [...this.#outbound, rate("outbound")].slice(-LINE_POINTS);
    }
    this.#readings.push(now);
    while ((this.#readings[1]?.atMs ?? Infinity) <= now.atMs - PERIOD_MS) this.#readings.shift();
  }
}

/** Sums of an upstream keep the requests of rows that gave way: they have no caller and no route. */
function sumsOf(
  rows: readonly TrafficRowView[],
  past: readonly TrafficRowView[],
): ReadonlyMap<string, Sums> {
  const sums = new Map<string, Sums>();
  const add = (row: TrafficRowView, keys: readonly string[]) => {
    for (const key of keys) {
      const known = sums.get(key);
      if (!known && sums.size >= MAX_FLOWS) continue;
      sums.set(key, added(known ?? NO_SUMS, row));
    }
  };
  for (const row of rows) {
    const { direction, caller, upstream, target, endpoint, route } = row;
    if (direction === "inbound") add(row, [flowKey("inbound"), flowKey("caller", caller)]);
    else {
      add(row, [
        flowKey("outbound"),
        flowKey("upstream", upstream),
        flowKey("endpoint", upstream, target, endpoint),
        flowKey("route", upstream, route),
      ]);
    }
  }
  for (const row of past) add(row, [flowKey("outbound"), flowKey("upstream", row.upstream)]);
  return sums;
}

const NO_SUMS: Sums = { requests: 0, errors: 0, open: 0, counts: noTraffic() };

/** A copy, also of the counts: a data path on this thread goes on counting in its own. */
function added(a: Sums, b: Sums): Sums {
  return {
    requests: a.requests + b.requests,
    errors: a.errors + b.errors,
    open: a.open + b.open,
    counts: a.counts.map((count, bucket) => count + (b.counts[bucket] ?? 0)),
  };
}

function flowOf(sums: Sums, before: Sums | undefined, periodMs: number): FlowShown {
  // Rows gave way, or a worker began again: there is nothing to compare with.
  const base = before && before.requests > sums.requests ? sums : before;
  const requests = sums.requests - (base?.requests ?? 0);
  const errors = Math.max(0, sums.errors - (base?.errors ?? 0));
  const counts = base
    ? sums.counts.map((count, bucket) => Math.max(0, count - (base.counts[bucket] ?? 0)))
    : sums.counts;
  return {
    perSecond: requests * 1_000 / periodMs,
    errorShare: requests === 0 ? 0 : errors / requests,
    p50Ms: trafficQuantileMs(counts, 0.5),
    p99Ms: trafficQuantileMs(counts, 0.99),
    requests: sums.requests,
    errors: sums.errors,
    open: sums.open,
  };
}
