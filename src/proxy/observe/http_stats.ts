/**
 * Counters of the exchanges of one listener and of the clusters behind it. Handles are resolved when the
 * listener is made; an exchange costs a few additions when it begins and when it ends.
 *
 * @module
 */

import type { Counter, Gauge, Histogram, Labels, Stats } from "../../base/mod.ts";
import { type ExchangeRecord, FLAG, NOT_REACHED } from "../../http/mod.ts";
import { GrpcStats } from "./grpc_stats.ts";
import type { ExchangeObserver } from "./observers.ts";

type Row = readonly [name: string, help: string];

const METRICS = {
  requests: ["http_requests_total", "HTTP requests received; counted when the head is read"],
  active: ["http_requests_active", "HTTP requests received whose response has not ended"],
  receivedBytes: ["http_received_bytes_total", "Bytes of request bodies received from callers"],
  sentBytes: ["http_sent_bytes_total", "Bytes of response bodies sent to callers"],
  durations: [
    "http_request_duration_ms",
    "Milliseconds from the head of a request to the end of its response",
  ],
} as const satisfies Record<string, Row>;

/** Metrics of one cluster behind a listener. */
const BEHIND = {
  requests: [
    "http_upstream_requests_total",
    "HTTP requests sent to instances of the cluster; each retry counts",
  ],
  active: [
    "http_upstream_requests_active",
    "HTTP requests sent to the cluster whose response has not ended",
  ],
  times: [
    "http_upstream_time_ms",
    "Milliseconds from the end of a request sent to the cluster to the end of its response",
  ],
  connectionsOpened: [
    "http_upstream_connections_total",
    "Connections for HTTP opened to instances of the cluster",
  ],
  connectionsActive: [
    "http_upstream_connections_active",
    "Connections for HTTP to instances of the cluster that are open now",
  ],
  connectFailures: [
    "http_upstream_connect_failures_total",
    "Connections for HTTP that could not be opened, timeouts included",
  ],
  connectTimeouts: [
    "http_upstream_connect_timeouts_total",
    "Connections for HTTP that were not open within the connect timeout",
  ],
  pending: ["http_pending_total", "HTTP requests that had to wait for a connection to the cluster"],
  pendingActive: [
    "http_pending_active",
    "HTTP requests that wait for a connection to the cluster now",
  ],
} as const satisfies Record<string, Row>;

/** Metrics with a label whose values are not known beforehand. */
const SPREAD = {
  responses: ["http_responses_total", "HTTP responses sent to callers, by status"],
  flags: [
    "http_response_flags_total",
    "HTTP requests that ended with one of Envoy's response flags, by flag",
  ],
  failures: [
    "http_requests_failed_total",
    "HTTP requests that failed, by error code and the side that ended them",
  ],
  unjudged: [
    "http_requests_unjudged_total",
    "HTTP requests denied because a rule asks for what cannot be checked, by rule",
  ],
} as const satisfies Record<string, Row>;

const SPREAD_BEHIND = {
  responses: [
    "http_upstream_responses_total",
    "HTTP requests sent to the cluster that ended, by the status of the response",
  ],
  retries: ["http_retries_total", "HTTP requests sent to the cluster again after a failed attempt"],
} as const satisfies Record<string, Row>;

/** Statuses with a counter of their own; an upstream chooses them. Later ones are counted by class. */
const STATUS_LIMIT = 40;
/** Rules with a counter of their own. */
const RULE_LIMIT = 40;
const FLAGS = Object.entries(FLAG);

export interface StatsOwner {
  readonly direction: "inbound" | "outbound";
  /** Name of the listener. */
  readonly listener: string;
  /** Whether its requests are gRPC calls, which are counted by method, too. */
  readonly speaksGrpc: () => boolean;
}

/** Counters of the pooled connections to one cluster. */
export class HttpPoolStats {
  readonly connectionsOpened: Counter;
  readonly connectionsActive: Gauge;
  readonly connectFailures: Counter;
  readonly connectTimeouts: Counter;
  readonly pending: Counter;
  readonly pendingActive: Gauge;

  constructor(stats: Stats, labels: Labels) {
    this.connectionsOpened = stats.counter(...BEHIND.connectionsOpened, labels);
    this.connectionsActive = stats.gauge(...BEHIND.connectionsActive, labels);
    this.connectFailures = stats.counter(...BEHIND.connectFailures, labels);
    this.connectTimeouts = stats.counter(...BEHIND.connectTimeouts, labels);
    this.pending = stats.counter(...BEHIND.pending, labels);
    this.pendingActive = stats.gauge(...BEHIND.pendingActive, labels);
  }
}

/** Counters of the requests that a listener sent to one cluster, and of its pooled connections. */
export class HttpClusterStats {
  readonly pool: HttpPoolStats;
  readonly #stats: Stats;
  readonly #labels: Labels;
  readonly #requests: Counter;
  readonly #active: Gauge;
  readonly #times: Histogram;
  readonly #responses: Spread;
  readonly #retries: Spread;
  /** Made for the first gRPC call. */
  #calls: GrpcStats | undefined;

  constructor(stats: Stats, labels: Labels) {
    this.#stats = stats;
    this.#labels = labels;
    this.pool = new HttpPoolStats(stats, labels);
    this.#requests = stats.counter(...BEHIND.requests, labels);
    this.#active = stats.gauge(...BEHIND.active, labels);
    this.#times = stats.histogram(...BEHIND.times, labels);
    this.#responses = new Spread(stats, SPREAD_BEHIND.responses, labels);
    this.#retries = new Spread(stats, SPREAD_BEHIND.retries, labels);
  }

  /** A request was sent to an endpoint; {@link left} follows exactly once. */
  reached(): void {
    this.#requests.add(1);
    this.#active.add(1);
  }

  /** The request was answered, or is sent to another endpoint. */
  left(): void {
    this.#active.add(-1);
  }

  /** An exchange ended whose route led to the cluster. */
  ended(record: ExchangeRecord, isCall: boolean): void {
    const { status, attempts, endAt } = record;
    if (status !== 0) countStatus(this.#responses, status);
    if (record.upstreamFirstByteAt !== NOT_REACHED) {
      this.#times.observe(endAt - Math.max(record.requestEndAt, record.startedAt));
    }
    if (attempts > 1) this.#retries.of(0, {}).add(attempts - 1);
    if (isCall) (this.#calls ??= new GrpcStats(this.#stats, this.#labels)).ended(record);
  }

  forget(): void {
    this.#calls?.forget();
    for (const [name] of Object.values(BEHIND)) this.#stats.remove(name, this.#labels);
    this.#responses.forget();
    this.#retries.forget();
  }
}

export class HttpStats implements ExchangeObserver {
  readonly #stats: Stats;
  readonly #labels: Labels;
  readonly #speaksGrpc: () => boolean;
  readonly #clusters = new Map<string, HttpClusterStats>();
  readonly #requests: Counter;
  readonly #active: Gauge;
  readonly #receivedBytes: Counter;
  readonly #sentBytes: Counter;
  readonly #durations: Histogram;
  readonly #responses: Spread;
  readonly #flags: Spread;
  readonly #failures: Spread;
  readonly #unjudged: Spread;

  constructor(stats: Stats, { direction, listener, speaksGrpc }: StatsOwner) {
    this.#speaksGrpc = speaksGrpc;
    const labels = this.#labels = { direction, listener };
    this.#stats = stats;
    this.#requests = stats.counter(...METRICS.requests, labels);
    this.#active = stats.gauge(...METRICS.active, labels);
    this.#receivedBytes = stats.counter(...METRICS.receivedBytes, labels);
    this.#sentBytes = stats.counter(...METRICS.sentBytes, labels);
    this.#durations = stats.histogram(...METRICS.durations, labels);
    this.#responses = new Spread(stats, SPREAD.responses, labels);
    this.#flags = new Spread(stats, SPREAD.flags, labels);
    this.#failures = new Spread(stats, SPREAD.failures, labels);
    this.#unjudged = new Spread(stats, SPREAD.unjudged, labels);
  }

  /** Counters of the requests that go to that cluster. */
  of(cluster: string): HttpClusterStats {
    let stats = this.#clusters.get(cluster);
    if (!stats) {
      stats = new HttpClusterStats(this.#stats, { ...this.#labels, cluster });
      this.#clusters.set(cluster, stats);
    }
    return stats;
  }

  /** Removes the counters of clusters that the listener does not lead to any more, and adds those that are new. */
  keepClusters(names: ReadonlySet<string>): void {
    for (const name of names) this.of(name);
    for (const [name, stats] of this.#clusters) {
      if (names.has(name)) continue;
      this.#clusters.delete(name);
      stats.forget();
    }
  }

  began(): void {
    this.#requests.add(1);
    this.#active.add(1);
  }

  reached(record: ExchangeRecord): void {
    record.counted?.left();
    const cluster = this.of(record.upstreamCluster);
    cluster.reached();
    record.counted = cluster;
  }

  ended(record: ExchangeRecord): void {
    const { status, flags, code, endAt } = record;
    record.counted?.left();
    record.counted = undefined;
    this.#active.add(-1);
    this.#receivedBytes.add(record.receivedBytes);
    this.#sentBytes.add(record.sentBytes);
    this.#durations.observe(endAt - record.startedAt);
    if (status !== 0) countStatus(this.#responses, status);
    if (record.upstreamCluster !== "") {
      this.of(record.upstreamCluster).ended(record, this.#speaksGrpc());
    }
    if (flags !== 0) this.#countFlags(flags);
    if (code !== undefined) this.#countFailure(code, record.endedBy ?? "proxy");
  }

  /** A request was denied by a rule with a condition that cannot be checked. */
  unjudged(rule: string): void {
    const unjudged = this.#unjudged;
    const known = unjudged.known(rule);
    if (known) return known.add(1);
    const shown = unjudged.size < RULE_LIMIT ? rule : "other";
    unjudged.of(shown, { rule: shown }).add(1);
  }

  #countFlags(flags: number): void {
    for (const [flag, bit] of FLAGS) {
      if (flags & bit) (this.#flags.known(bit) ?? this.#flags.of(bit, { flag })).add(1);
    }
  }

  #countFailure(code: string, endedBy: string): void {
    const key = `${code} ${endedBy}`;
    const failures = this.#failures;
    (failures.known(key) ?? failures.of(key, { outcome: code, ended_by: endedBy })).add(1);
  }

  /** Removes the metrics of a listener that is gone. */
  forget(): void {
    this.keepClusters(new Set());
    for (const [name] of Object.values(METRICS)) this.#stats.remove(name, this.#labels);
    for (
      const spread of [
        this.#responses,
        this.#flags,
        this.#failures,
        this.#unjudged,
      ]
    ) spread.forget();
  }
}

function countStatus(spread: Spread, status: number): void {
  const known = spread.known(status);
  if (known) return known.add(1);
  const text = spread.size < STATUS_LIMIT ? String(status) : `${Math.floor(status / 100)}xx`;
  spread.of(spread.size < STATUS_LIMIT ? status : text, { status: text }).add(1);
}

/** Counters of one metric by a label whose values are not known beforehand. */
class Spread {
  readonly #stats: Stats;
  readonly #row: Row;
  readonly #labels: Labels;
  readonly #cells = new Map<string | number, { readonly counter: Counter; readonly own: Labels }>();

  constructor(stats: Stats, row: Row, labels: Labels) {
    this.#stats = stats;
    this.#row = row;
    this.#labels = labels;
  }

  get size(): number {
    return this.#cells.size;
  }

  known(key: string | number): Counter | undefined {
    return this.#cells.get(key)?.counter;
  }

  of(key: string | number, labels: Labels): Counter {
    const known = this.known(key);
    if (known) return known;
    const own = { ...this.#labels, ...labels };
    const counter = this.#stats.counter(...this.#row, own);
    this.#cells.set(key, { counter, own });
    return counter;
  }

  forget(): void {
    for (const { own } of this.#cells.values()) this.#stats.remove(this.#row[0], own);
    this.#cells.clear();
  }
}
