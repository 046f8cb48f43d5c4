/**
 * The traffic table: requests, errors, durations, bytes and open requests by caller, upstream, target,
 * endpoint and route. A row is found once and kept on the connection of the caller or on the endpoint, so
 * that a request costs a few additions.
 *
 * @module
 */

import { type Clock, formatAddress, type TrafficKey, TrafficRow } from "../../base/mod.ts";
import type { EndpointState } from "../../balance/mod.ts";
import {
  type ExchangeRecord,
  fieldOf,
  type Fields,
  GRPC_STATUS,
  httpStatusOf,
  readGrpcStatus,
} from "../../http/mod.ts";
import { upstreamLabel } from "../../snapshot/mod.ts";
import type { ConnectionRecord, Ending } from "./connection_record.ts";
import type { ConnectionObserver, ExchangeObserver, ReachedEndpoint } from "./observers.ts";
import { type RequestFault, TrafficLists } from "./traffic_lists.ts";
import type { EndpointView, TrafficRowView, TrafficView } from "./view.ts";

/** Rows of one worker, besides one for each direction that has the rest. */
const ROW_LIMIT = 500;
/** A row that was not used for so long gives its place to a new one. */
const IDLE_MS = 10 * 60_000;
/** Minimum pause between searches for such rows. */
const SEARCH_EVERY_MS = 1_000;
/** Rows that an endpoint keeps; others are found in the table. */
const KEPT_ROWS = 8;

const OTHER = { caller: "other", upstream: "", target: "", endpoint: "", route: "" } as const;

/** Ends that a limit or an operator decided, or the caller: no errors of a connection. */
const IN_ORDER: ReadonlySet<string> = new Set([
  "downstream_reset",
  "idle_timed_out",
  "lifetime_ended",
  "drained",
  "closed",
]);

interface Live {
  readonly record: Pick<ConnectionRecord, "traffic" | "relay">;
}

export class TrafficTable {
  readonly #clock: Pick<Clock, "now" | "monotonic">;
  readonly #sinceMs: number;
  readonly #rows = new Map<string, TrafficRow>();
  readonly #others: Readonly<Record<TrafficKey["direction"], TrafficRow>>;
  readonly #lists: TrafficLists;
  #searchedMs = -Infinity;

  constructor(clock: Pick<Clock, "now" | "monotonic">) {
    this.#clock = clock;
    const nowMs = this.#sinceMs = clock.monotonic();
    this.#lists = new TrafficLists(clock);
    this.#others = {
      inbound: new TrafficRow({ direction: "inbound", ...OTHER }, nowMs),
      outbound: new TrafficRow({ direction: "outbound", ...OTHER }, nowMs),
    };
  }

  readonly connections: ConnectionObserver = {
    reached: (record, endpoint) => {
      if (record.speaksHttp) return;
      const row = record.traffic = endpoint
        ? this.#ofEndpoint(endpoint, record.caller, "")
        : this.#ofCaller(record);
      row.open++;
    },
    ended: (record, ending) => this.#connectionEnded(record, ending),
  };

  readonly exchanges: ExchangeObserver = {
    began: (record) => {
      const { connection } = record.downstream;
      if (connection?.direction !== "inbound") return;
      const row = record.traffic = this.#ofCaller(connection);
      row.open++;
    },
    reached: (record, endpoint) => {
      const { connection } = record.downstream;
      if (!endpoint || !connection) return;
      const nowMs = record.upstreamStartAt;
      // The attempt before failed, or its response was not wanted.
      record.traffic?.ended(nowMs - record.startedAt, true, nowMs);
      const row = record.traffic = this.#ofEndpoint(endpoint, connection.caller, record.route);
      row.open++;
    },
    ended: (record) => this.#exchangeEnded(record),
  };

  #exchangeEnded(record: ExchangeRecord): void {
    const { endAt, startedAt, upstreamStartAt, downstream: { connection } } = record;
    if (!connection) return;
    let row = record.traffic;
    if (!row) {
      // Outbound, and no endpoint was reached.
      row = this.#ofCaller(connection);
      row.open++;
    }
    record.traffic = undefined;
    row.receivedBytes += record.receivedBytes;
    row.sentBytes += record.sentBytes;
    const fault = faultOf(record);
    // An endpoint is not slow because the one before it was.
    const fromMs = row.key.endpoint === "" ? startedAt : upstreamStartAt;
    row.ended(endAt - fromMs, fault !== undefined, endAt);
    if (fault) this.#lists.refused(fault, record, row);
    this.#lists.answered(endAt - startedAt, record, row);
  }

  #connectionEnded(record: ConnectionRecord, ending: Ending): void {
    if (ending.kind === "failed") this.#lists.connectionRefused(record, ending);
    // Requests of a connection are counted apart, and strangers have no row.
    if (record.speaksHttp || record.caller === "") return;
    let row = record.traffic;
    if (!row) {
      row = this.#ofCaller(record);
      row.open++;
    }
    const nowMs = this.#clock.monotonic();
    row.receivedBytes += record.relay?.receivedBytes ?? 0;
    row.sentBytes += record.relay?.sentBytes ?? 0;
    const isError = ending.kind === "failed" && !IN_ORDER.has(ending.code);
    row.ended(nowMs - record.openedMs, isError, nowMs);
    record.traffic = undefined;
  }

  /** The row of a caller of the local application, or of an upstream where no endpoint was reached. */
  #ofCaller(
    connection: Pick<
      ConnectionRecord,
      "direction" | "listener" | "destination" | "caller" | "traffic"
    >,
  ): TrafficRow {
    const known = connection.traffic;
    if (known && !known.isGone) return known;
    const { direction, listener, destination, caller } = connection;
    const upstream = direction === "inbound"
      ? ""
      : upstreamLabel({ id: listener, name: destination });
    return connection.traffic = this.#find({
      direction,
      caller,
      upstream,
      target: "",
      endpoint: "",
      route: "",
    });
  }

  #ofEndpoint({ target, state }: ReachedEndpoint, caller: string, route: string): TrafficRow {
    for (const row of state.traffic) {
      if (row.key.route === route && row.key.caller === caller && !row.isGone) return row;
    }
    const row = this.#find({
      direction: "outbound",
      caller,
      upstream: upstreamLabel(target.upstream.part),
      target: target.part.key,
      endpoint: formatAddress({ kind: "tcp", ...state.endpoint }),
      route,
    });
    if (row !== this.#others.outbound) keep(row, state);
    return row;
  }

  #find(key: TrafficKey): TrafficRow {
    const { direction, caller, upstream, target, endpoint, route } = key;
    const text = [direction, caller, upstream, target, endpoint, route].join("\u0000");
    const known = this.#rows.get(text);
    if (known) return known;
    const nowMs = this.#clock.monotonic();
    if (this.#rows.size >= ROW_LIMIT) this.#giveWay(nowMs);
    if (this.#rows.size >= ROW_LIMIT) return this.#others[direction];
    const row = new TrafficRow(key, nowMs);
    this.#rows.set(text, row);
    return row;
  }

  #giveWay(nowMs: number): void {
    if (nowMs - this.#searchedMs < SEARCH_EVERY_MS) return;
    this.#searchedMs = nowMs;
    this.#remove((row) => nowMs - row.usedMs >= IDLE_MS);
  }

  #remove(isUnwanted: (row: TrafficRow) => boolean): void {
    for (const [text, row] of this.#rows) {
      if (row.open > 0 || !isUnwanted(row)) continue;
      row.isGone = true;
      this.#rows.delete(text);
    }
  }

  /** Removes the rows of endpoints that no upstream has any more. */
  keepEndpoints(endpoints: readonly EndpointView[]): void {
    const known = new Set(endpoints.map(({ target, address }) => `${target} ${address}`));
    this.#remove(({ key: { target, endpoint } }) =>
      endpoint !== "" && !known.has(`${target} ${endpoint}`)
    );
  }

  view(live: Iterable<Live>): TrafficView {
    const bytes = new Map<TrafficRow, { received: number; sent: number }>();
    for (const { record: { traffic, relay } } of live) {
      if (!traffic || !relay) continue;
      const sum = bytes.get(traffic) ?? { received: 0, sent: 0 };
      bytes.set(traffic, sum);
      sum.received += relay.receivedBytes;
      sum.sent += relay.sentBytes;
    }
    const others = Object.values(this.#others).filter(({ requests, open }) => requests + open > 0);
    return {
      sinceMs: Math.round(this.#clock.monotonic() - this.#sinceMs),
      rows: [...this.#rows.values(), ...others].map((row): TrafficRowView => {
        const { received = 0, sent = 0 } = bytes.get(row) ?? {};
        const { key, requests, errors, sumMs, open, counts } = row;
        return {
          ...key,
          requests,
          errors,
          counts,
          sumMs,
          receivedBytes: row.receivedBytes + received,
          sentBytes: row.sentBytes + sent,
          open,
        };
      }),
      ...this.#lists.view(),
    };
  }
}

function keep(row: TrafficRow, { traffic }: EndpointState): void {
  const gone = traffic.findIndex(({ isGone }) => isGone);
  if (gone >= 0) traffic[gone] = row;
  else if (traffic.length < KEPT_ROWS) traffic.push(row);
}

const FAILED: RequestFault = { code: "", rule: "" };

/** Why the request counts as an error: it failed here, or the response says so; `undefined`: it does not. */
function faultOf(record: ExchangeRecord): RequestFault | undefined {
  const { code, status, response, responseTrailers, sentBytes } = record;
  if (code !== undefined) return code === "downstream_reset" ? undefined : { code, rule: "" };
  if (status >= 500) return FAILED;
  if (status === 403) return response && denialIn(response.fields);
  if (status !== 200) return undefined;
  // A gRPC call has trailers, or a response without a body.
  const fields = responseTrailers ?? (sentBytes === 0 ? response?.fields : undefined);
  const grpcStatus = fields && readGrpcStatus(fields);
  if (!fields || grpcStatus === undefined) return undefined;
  if (grpcStatus === GRPC_STATUS.permissionDenied) return denialIn(response?.fields ?? fields);
  return httpStatusOf(grpcStatus) >= 500 ? FAILED : undefined;
}

/** The other sidecar denied it by an intention, not the application. */
function denialIn(fields: Fields): RequestFault | undefined {
  const rule = fieldOf(fields, "x-postern-denied-by");
  return rule === undefined ? undefined : { code: "intention_denied", rule };
}
