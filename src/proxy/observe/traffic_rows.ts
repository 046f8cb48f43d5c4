/** The rows of the traffic table, bounded in number, and the sums of those that gave way. @module */

import { addTraffic, formatAddress, type TrafficKey, TrafficRow } from "../../base/mod.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import type { TrafficRowView } from "./view.ts";

/** Rows of one worker, besides one for each direction that has the rest. */
const ROW_LIMIT = 500;
/** A row that was not used for so long gives its place to a new one. */
const IDLE_MS = 10 * 60_000;
/** Minimum pause between searches for such rows. */
const SEARCH_EVERY_MS = 1_000;
/** `recent` numbers are of one to two periods; all workers end theirs at the same time. */
const PERIOD_MS = 60_000;

const NOTHING = { caller: "", upstream: "", target: "", endpoint: "", route: "" } as const;

export class TrafficRows {
  readonly #rows = new Map<string, TrafficRow>();
  readonly #others: Readonly<Record<TrafficKey["direction"], TrafficRow>>;
  /** Rows that gave way, by endpoint and target. */
  readonly #past = new Map<string, TrafficRow>();
  /** Endpoints and targets of the snapshot in force; `undefined`: there is none yet. */
  #known:
    | { readonly endpoints: ReadonlySet<string>; readonly targets: ReadonlySet<string> }
    | undefined;
  #searchedMs = -Infinity;
  /** Starts of this period and of the one before it. */
  #begunMs: number;
  #beganBeforeMs: number;

  constructor(nowMs: number) {
    this.#others = {
      inbound: new TrafficRow({ ...NOTHING, direction: "inbound", caller: "other" }, nowMs),
      outbound: new TrafficRow({ ...NOTHING, direction: "outbound", caller: "other" }, nowMs),
    };
    this.#begunMs = this.#beganBeforeMs = nowMs;
  }

  isOther(row: TrafficRow): boolean {
    return row === this.#others[row.key.direction];
  }

  find(key: TrafficKey, nowMs: number): TrafficRow {
    const text = textOf(key);
    const known = this.#rows.get(text);
    if (known) return known;
    if (this.#rows.size >= ROW_LIMIT) this.#giveWay(nowMs);
    if (this.#rows.size >= ROW_LIMIT) return this.#others[key.direction];
    const row = new TrafficRow(key, nowMs);
    this.#rows.set(text, row);
    return row;
  }

  #giveWay(nowMs: number): void {
    if (nowMs - this.#searchedMs < SEARCH_EVERY_MS) return;
    this.#searchedMs = nowMs;
    for (const [text, row] of this.#rows) {
      if (row.open === 0 && nowMs - row.usedMs >= IDLE_MS) this.#remove(text, row);
    }
  }

  #remove(text: string, row: TrafficRow): void {
    row.isGone = true;
    this.#rows.delete(text);
    this.#keepPast(row);
  }

  /** Adds the numbers to those of the endpoint, or of the target if the endpoint is gone. */
  #keepPast({ key, requests, errors, sumMs, counts }: TrafficRow): void {
    const { upstream, target } = key;
    if (target === "" || !this.#known?.targets.has(target)) return;
    const endpoint = this.#known.endpoints.has(endpointOf(key)) ? key.endpoint : "";
    const pastKey: TrafficKey = { ...NOTHING, direction: "outbound", upstream, target, endpoint };
    const text = textOf(pastKey);
    const past = this.#past.get(text) ?? new TrafficRow(pastKey, 0);
    this.#past.set(text, past);
    past.requests += requests;
    past.errors += errors;
    past.sumMs += sumMs;
    past.counts.set(addTraffic(past.counts, counts));
  }

  /** Rows of endpoints that are not among these are removed once nothing is open. */
  keepTargets(targets: Snapshot["targets"]): void {
    const endpoints = Object.values(targets).flatMap(({ key, endpoints, lastResort }) =>
      [...endpoints, ...lastResort].map(({ host, port }) =>
        `${key} ${formatAddress({ kind: "tcp", host, port })}`
      )
    );
    this.#known = { endpoints: new Set(endpoints), targets: new Set(Object.keys(targets)) };
    this.#removeGone();
  }

  #removeGone(): void {
    const known = this.#known;
    if (!known) return;
    const isGone = ({ key }: TrafficRow) =>
      key.endpoint !== "" && !known.endpoints.has(endpointOf(key));
    // All rows of an endpoint go together: their sum must not decrease.
    const busy = new Set<string>();
    for (const { key, open } of this.#rows.values()) if (open > 0) busy.add(endpointOf(key));
    for (const [text, row] of this.#rows) {
      if (isGone(row) && !busy.has(endpointOf(row.key))) this.#remove(text, row);
    }
    for (const [text, row] of [...this.#past]) {
      if (known.targets.has(row.key.target) && !isGone(row)) continue;
      this.#past.delete(text);
      this.#keepPast(row);
    }
  }

  /** Called for every request: mostly one comparison. */
  tick(nowMs: number): void {
    if (nowMs >= this.#begunMs + PERIOD_MS) this.#endPeriod(nowMs);
  }

  #endPeriod(nowMs: number): void {
    const startMs = Math.floor(nowMs / PERIOD_MS) * PERIOD_MS;
    // Between the two was a period without a call of this method.
    const isLate = startMs >= this.#begunMs + 2 * PERIOD_MS;
    this.#beganBeforeMs = isLate ? startMs : this.#begunMs;
    this.#begunMs = startMs;
    for (const rows of [this.#rows.values(), Object.values(this.#others)]) {
      for (const row of rows) {
        row.endPeriod();
        if (isLate) row.endPeriod();
      }
    }
  }

  view(nowMs: number, bytesOf: (row: TrafficRow) => OpenBytes | undefined): {
    readonly rows: readonly TrafficRowView[];
    readonly recentMs: number;
    readonly past: readonly TrafficRowView[];
  } {
    this.tick(nowMs);
    this.#removeGone();
    const others = Object.values(this.#others).filter(({ requests, open }) => requests + open > 0);
    return {
      rows: [...this.#rows.values(), ...others].map((row) => viewOf(row, bytesOf(row))),
      recentMs: Math.round(nowMs - this.#beganBeforeMs),
      past: [...this.#past.values()].map((row) => viewOf(row, undefined)),
    };
  }
}

/** Bytes of connections that are open. */
export interface OpenBytes {
  readonly received: number;
  readonly sent: number;
}

function viewOf(
  row: TrafficRow,
  { received = 0, sent = 0 }: Partial<OpenBytes> = {},
): TrafficRowView {
  const {
    key,
    requests,
    errors,
    counts,
    sumMs,
    receivedBytes,
    sentBytes,
    open,
    recent,
    exemplars,
    faults,
  } = row;
  return {
    ...key,
    requests,
    errors,
    counts,
    sumMs,
    receivedBytes: receivedBytes + received,
    sentBytes: sentBytes + sent,
    open,
    ...recent && { recent },
    ...exemplars.length > 0 && { exemplars },
    ...faults.length > 0 && { faults },
  };
}

function textOf({ direction, caller, upstream, target, endpoint, route }: TrafficKey): string {
  return [direction, caller, upstream, target, endpoint, route].join("\u0000");
}

function endpointOf({ target, endpoint }: TrafficKey): string {
  return `${target} ${endpoint}`;
}
