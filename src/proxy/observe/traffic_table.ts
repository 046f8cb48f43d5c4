/**
 * The traffic table: requests, errors, durations, bytes and open requests by caller, upstream, target,
 * endpoint and route. A row is found once and kept on the connection of the caller or on the endpoint, so
 * that a request costs a few additions.
 *
 * @module
 */

import {
  type Clock,
  formatAddress,
  type TrafficExemplar,
  type TrafficRow,
} from "../../base/mod.ts";
import type { EndpointState } from "../../balance/mod.ts";
import {
  type Denial,
  type ExchangeRecord,
  httpStatusOf,
  readGrpcStatus,
  readTrace,
  TRACE_FORMS,
} from "../../http/mod.ts";
import { type Snapshot, upstreamLabel } from "../../snapshot/mod.ts";
import type { ConnectionRecord, Ending } from "./connection_record.ts";
import type { ConnectionObserver, ExchangeObserver, ReachedEndpoint } from "./observers.ts";
import { type OnRefusal, type RequestFault, TrafficLists } from "./traffic_lists.ts";
import { TrafficRows } from "./traffic_rows.ts";
import type { TrafficView } from "./view.ts";

/** Rows that an endpoint keeps; others are found in the table. */
const KEPT_ROWS = 8;

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
  readonly #rows: TrafficRows;
  readonly #lists: TrafficLists;

  constructor(clock: Pick<Clock, "now" | "monotonic">, onRefusal?: OnRefusal) {
    this.#clock = clock;
    this.#sinceMs = clock.monotonic();
    this.#rows = new TrafficRows(this.#sinceMs);
    this.#lists = new TrafficLists(clock, onRefusal);
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
      record.traffic?.failed(0, "retried");
      const row = record.traffic = this.#ofEndpoint(endpoint, connection.caller, record.route);
      row.open++;
    },
    ended: (record) => this.#exchangeEnded(record),
  };

  #exchangeEnded(record: ExchangeRecord): void {
    const { endAt, startedAt, upstreamStartAt, downstream: { connection } } = record;
    if (!connection) return;
    this.#rows.tick(endAt);
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
    const due = row.ended(endAt - fromMs, fault !== undefined, endAt);
    if (due >= 0) row.takeExemplar(due, exemplarOf(record, endAt - fromMs), endAt);
    if (fault) {
      // A gRPC error has the status 200.
      row.failed(record.status, fault.code || (record.status === 200 ? "grpc_status" : ""));
      this.#lists.refused(fault, record, row);
    }
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
    this.#rows.tick(nowMs);
    row.receivedBytes += record.relay?.receivedBytes ?? 0;
    row.sentBytes += record.relay?.sentBytes ?? 0;
    const isError = ending.kind === "failed" && !IN_ORDER.has(ending.code);
    if (isError) row.failed(0, ending.code);
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
    const row = this.#rows.find({
      direction,
      caller,
      upstream,
      target: "",
      endpoint: "",
      route: "",
    }, this.#clock.monotonic());
    if (!this.#rows.isOther(row)) connection.traffic = row;
    return row;
  }

  #ofEndpoint({ target, state }: ReachedEndpoint, caller: string, route: string): TrafficRow {
    for (const row of state.traffic) {
      if (row.key.route === route && row.key.caller === caller && !row.isGone) return row;
    }
    const row = this.#rows.find({
      direction: "outbound",
      caller,
      upstream: upstreamLabel(target.upstream.part),
      target: target.part.key,
      endpoint: formatAddress({ kind: "tcp", ...state.endpoint }),
      route,
    }, this.#clock.monotonic());
    if (!this.#rows.isOther(row)) keep(row, state);
    return row;
  }

  /** Removes the rows of endpoints that are not in the snapshot any more. */
  keepTargets(targets: Snapshot["targets"]): void {
    this.#rows.keepTargets(targets);
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
    const nowMs = this.#clock.monotonic();
    return {
      sinceMs: Math.round(nowMs - this.#sinceMs),
      ...this.#rows.view(nowMs, (row) => bytes.get(row)),
      ...this.#lists.view(),
    };
  }
}

function keep(row: TrafficRow, { traffic }: EndpointState): void {
  const gone = traffic.findIndex(({ isGone }) => isGone);
  if (gone >= 0) traffic[gone] = row;
  else if (traffic.length < KEPT_ROWS) traffic.push(row);
}

const FAILED: RequestFault = { code: "", deniedBy: "" };

/** Why the request counts as an error: it failed here, or the response says so; `undefined`: it does not. */
export function faultOf(record: ExchangeRecord): RequestFault | undefined {
  const { code, denial, status, response, responseTrailers, sentBytes, upstream } = record;
  if (code !== undefined) return code === "downstream_reset" ? undefined : { code, deniedBy: "" };
  if (denial) return { code: denial.code, deniedBy: deniedByText(denial, upstream?.service) };
  if (status >= 500) return FAILED;
  if (status !== 200) return undefined;
  // A gRPC call has trailers, or a response without a body.
  const fields = responseTrailers ?? (sentBytes === 0 ? response?.fields : undefined);
  const grpcStatus = fields && readGrpcStatus(fields);
  if (!fields || grpcStatus === undefined) return undefined;
  return httpStatusOf(grpcStatus) >= 500 ? FAILED : undefined;
}

function exemplarOf(record: ExchangeRecord, durationMs: number): TrafficExemplar | undefined {
  const { trace, request, startMs, startedAt, endAt } = record;
  const at = startMs + endAt - startedAt;
  if (trace) return { traceId: trace.traceId, durationMs, at };
  const parent = request && readTrace(request.fields, TRACE_FORMS).parent;
  return parent && parent.isSampled !== false
    ? { traceId: parent.traceId, durationMs, at }
    : undefined;
}

function deniedByText({ rule }: Denial, service = ""): string {
  return rule === "" ? service : `${service}: ${rule}`;
}
