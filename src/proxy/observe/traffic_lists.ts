/** The last refusals, and the slowest requests of the last minutes. @module */

import { type Clock, type ErrorCode, peerIp, type TrafficRow } from "../../base/mod.ts";
import { type ExchangeRecord, pathWithoutQuery } from "../../http/mod.ts";
import { upstreamLabel } from "../../snapshot/mod.ts";
import type { ConnectionRecord, Ending } from "./connection_record.ts";
import type { RefusalView, SlowRequestView } from "./view.ts";

const REFUSALS: ReadonlySet<string> = new Set<ErrorCode>([
  "overloaded",
  "identity_invalid",
  "chain_untrusted",
  "intention_denied",
  "source_denied",
  "authorize_failed",
  "not_ready",
  "limit_reached",
  "endpoint_untrusted",
  "refused_by_peer",
  "plugin_denied",
  "rate_limited",
  "unauthenticated",
]);
/** A rule or a limit refused. */
export function isRefusal(code: string): boolean {
  return REFUSALS.has(code);
}

/** No instance could take it: the caller is refused as well, by none of the rules. */
const UNSERVED: ReadonlySet<string> = new Set<ErrorCode>([
  "no_endpoint",
  "route_not_found",
  "endpoint_refused",
  "endpoint_timed_out",
  "local_refused",
]);

function isListed(code: string): boolean {
  return REFUSALS.has(code) || UNSERVED.has(code);
}

const REFUSAL_LIMIT = 200;
/** Refusals of one caller; further ones replace its own, not those of others. */
const CALLER_LIMIT = 50;
const SLOW_LIMIT = 50;
/** The slow requests of this and of the period before are shown. */
const SLOW_PERIOD_MS = 150_000;
const SHOWN_CHARS = 200;

/** How a request failed. */
export interface RequestFault {
  /** Code of the table; `""`: only the status says it. */
  readonly code: string;
  /** The service whose proxy refused, and its rule where that is told: `db`; `""`: this proxy. */
  readonly deniedBy: string;
}

interface SlowRequests {
  readonly list: SlowRequestView[];
  /** Shorter ones are not taken. */
  floorMs: number;
}

/** `reason`: `""` where the record does not have it. */
export type OnRefusal = (refusal: RefusalView, reason: string) => void;

export class TrafficLists {
  readonly #clock: Pick<Clock, "now" | "monotonic">;
  readonly #onRefusal: OnRefusal | undefined;
  /** Oldest first. */
  readonly #refusals: RefusalView[] = [];
  #slow: SlowRequests = { list: [], floorMs: 0 };
  #slowBefore: SlowRequests = this.#slow;
  #slowUntilMs = 0;

  constructor(clock: Pick<Clock, "now" | "monotonic">, onRefusal?: OnRefusal) {
    this.#clock = clock;
    this.#onRefusal = onRefusal;
  }

  refused({ code, deniedBy }: RequestFault, record: ExchangeRecord, { key }: TrafficRow): void {
    if (!isListed(code)) return;
    const { request, status, downstream: { connection } } = record;
    const { direction, caller, upstream } = key;
    this.#refuse({
      at: this.#clock.now(),
      direction,
      caller: connection?.caller ?? caller,
      listener: upstream || (connection?.listener ?? ""),
      code,
      rule: shown(record.rule),
      deniedBy: shown(deniedBy),
      path: request ? shown(pathWithoutQuery(request.path)) : "",
      status,
      count: 1,
    });
  }

  connectionRefused(
    record: ConnectionRecord,
    { code, reason }: Extract<Ending, { kind: "failed" }>,
  ): void {
    // Requests of the connection have refusals of their own.
    if (!isListed(code) || record.requests) return;
    const { direction, listener, destination, caller, remote, rule } = record;
    this.#refuse({
      at: this.#clock.now(),
      direction,
      caller: caller || peerIp(remote),
      listener: direction === "inbound"
        ? listener
        : upstreamLabel({ id: listener, name: destination }),
      code,
      rule,
      deniedBy: "",
      path: "",
      status: 0,
      count: 1,
    }, { isStranger: caller === "", reason: shown(reason) });
  }

  /** The same refusal again is counted. `isStranger`: each has another address, and all count as one. */
  #refuse(refusal: RefusalView, { isStranger = false, reason = "" } = {}): void {
    this.#onRefusal?.(refusal, reason);
    const { code, caller, listener, direction, rule, deniedBy, path, status } = refusal;
    const all = this.#refusals;
    let ofCaller = 0;
    let oldest = 0;
    for (let at = all.length - 1; at >= 0; at--) {
      const other = all[at];
      if (!other) continue;
      const isSame = other.code === code && other.listener === listener &&
        other.direction === direction &&
        (isStranger || other.caller === caller) && other.rule === rule &&
        other.deniedBy === deniedBy && other.path === path && other.status === status;
      if (isSame) {
        all.splice(at, 1);
        all.push({ ...refusal, count: other.count + 1 });
        return;
      }
      if (other.caller !== caller) continue;
      ofCaller++;
      oldest = at;
    }
    if (ofCaller >= CALLER_LIMIT) all.splice(oldest, 1);
    else if (all.length >= REFUSAL_LIMIT) all.shift();
    all.push(refusal);
  }

  /** Called for every request: mostly two comparisons. */
  answered(durationMs: number, record: ExchangeRecord, row: TrafficRow): void {
    if (record.endAt >= this.#slowUntilMs) this.#nextPeriod(record.endAt);
    if (durationMs > this.#slow.floorMs) this.#addSlow(durationMs, record, row);
  }

  #nextPeriod(nowMs: number): void {
    const isLate = nowMs >= this.#slowUntilMs + SLOW_PERIOD_MS;
    this.#slowBefore = isLate ? { list: [], floorMs: 0 } : this.#slow;
    this.#slow = { list: [], floorMs: 0 };
    this.#slowUntilMs = nowMs + SLOW_PERIOD_MS;
  }

  #addSlow(durationMs: number, record: ExchangeRecord, { key }: TrafficRow): void {
    const { request, status, upstreamHost, startMs, downstream: { connection } } = record;
    const slow = this.#slow;
    // A tunnel is as long as its users like.
    if (!request || request.upgrade !== "") return;
    slow.list.push({
      at: startMs + durationMs,
      caller: connection?.caller ?? key.caller,
      upstream: key.upstream,
      method: shown(request.method),
      path: shown(pathWithoutQuery(request.path)),
      status,
      durationMs,
      endpoint: upstreamHost,
    });
    if (slow.list.length < 2 * SLOW_LIMIT) return;
    slow.list.sort((a, b) => b.durationMs - a.durationMs);
    slow.list.length = SLOW_LIMIT;
    slow.floorMs = slow.list.at(-1)?.durationMs ?? 0;
  }

  view(): { readonly refusals: readonly RefusalView[]; readonly slow: readonly SlowRequestView[] } {
    const nowMs = this.#clock.monotonic();
    if (nowMs >= this.#slowUntilMs) this.#nextPeriod(nowMs);
    return {
      refusals: this.#refusals.slice().reverse(),
      slow: slowest([this.#slow.list, this.#slowBefore.list]),
    };
  }
}

/** The slowest of several lists. */
export function slowest(lists: readonly (readonly SlowRequestView[])[]): SlowRequestView[] {
  return lists.flat().sort((a, b) => b.durationMs - a.durationMs).slice(0, SLOW_LIMIT);
}

/** The last refusals of several lists. */
export function lastRefusals(lists: readonly (readonly RefusalView[])[]): RefusalView[] {
  return lists.flat().sort((a, b) => b.at - a.at).slice(0, REFUSAL_LIMIT);
}

function shown(text: string): string {
  return text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}...` : text;
}
