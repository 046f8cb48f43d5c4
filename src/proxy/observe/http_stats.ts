/** Counters of the exchanges of one listener and of the clusters behind it. @module */

import type { Labels, Stats } from "../../base/mod.ts";
import { type ExchangeRecord, FLAG, NOT_REACHED } from "../../http/mod.ts";
import { GrpcStats } from "./grpc_stats.ts";
import {
  ClusterCounters,
  countEnding,
  type MetricHandles,
  metricsOf,
  type MetricTable,
  removeMetrics,
  SpreadCounters,
} from "./metrics.ts";
import type { ExchangeObserver } from "./observers.ts";

const METRICS = {
  requests: [
    "counter",
    "http_requests_total",
    "HTTP requests received; counted when the head is read",
  ],
  active: [
    "gauge",
    "http_requests_active",
    "HTTP requests received whose response has not ended",
  ],
  receivedBytes: [
    "counter",
    "http_received_bytes_total",
    "Bytes of request bodies received from callers",
  ],
  sentBytes: ["counter", "http_sent_bytes_total", "Bytes of response bodies sent to callers"],
  durations: [
    "histogram",
    "http_request_duration_ms",
    "Milliseconds from the head of a request to the end of its response",
  ],
} as const satisfies MetricTable;

/** Metrics of the requests to one cluster behind a listener. */
const CLUSTER = {
  requests: [
    "counter",
    "http_upstream_requests_total",
    "HTTP requests sent to instances of the cluster; each retry counts",
  ],
  active: [
    "gauge",
    "http_upstream_requests_active",
    "HTTP requests sent to the cluster whose response has not ended",
  ],
  times: [
    "histogram",
    "http_upstream_time_ms",
    "Milliseconds from the end of a request sent to the cluster to the end of its response",
  ],
} as const satisfies MetricTable;

/** Metrics of the pooled connections to one cluster. */
const POOL = {
  connectionsOpened: [
    "counter",
    "http_upstream_connections_total",
    "Connections for HTTP opened to instances of the cluster",
  ],
  connectionsActive: [
    "gauge",
    "http_upstream_connections_active",
    "Connections for HTTP to instances of the cluster that are open now",
  ],
  connectFailures: [
    "counter",
    "http_upstream_connect_failures_total",
    "Connections for HTTP that could not be opened, timeouts included",
  ],
  connectTimeouts: [
    "counter",
    "http_upstream_connect_timeouts_total",
    "Connections for HTTP that were not open within the connect timeout",
  ],
  pending: [
    "counter",
    "http_pending_total",
    "HTTP requests that had to wait for a connection to the cluster",
  ],
  pendingActive: [
    "gauge",
    "http_pending_active",
    "HTTP requests that wait for a connection to the cluster now",
  ],
} as const satisfies MetricTable;

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
  clusterResponses: [
    "http_upstream_responses_total",
    "HTTP requests sent to the cluster that ended, by the status of the response",
  ],
  denials: [
    "http_upstream_refusals_total",
    "HTTP requests that the proxy of the upstream refused and said why, by its error code",
  ],
  retries: ["http_retries_total", "HTTP requests sent to the cluster again after a failed attempt"],
} as const;

/** Statuses with a counter of their own; an upstream chooses them. Later ones are counted by class. */
const STATUS_LIMIT = 40;
/** Rules with a counter of their own. */
const RULE_LIMIT = 40;
const FLAGS = Object.entries(FLAG);

export interface StatsOwner {
  readonly direction: "inbound" | "outbound";
  readonly listener: string;
  /** Whether its requests are gRPC calls, which are counted by method, too. */
  readonly speaksGrpc: () => boolean;
}

export type HttpPoolStats = MetricHandles<typeof POOL>;

export function httpPoolStats(stats: Stats, labels: Labels): HttpPoolStats {
  return metricsOf(stats, POOL, labels);
}

/** Counters of the requests that a listener sent to one cluster, and of its pooled connections. */
class HttpClusterStats {
  readonly pool: HttpPoolStats;
  readonly #stats: Stats;
  readonly #labels: Labels;
  readonly #metrics: MetricHandles<typeof CLUSTER>;
  readonly #responses: SpreadCounters;
  readonly #retries: SpreadCounters;
  /** Made for the first gRPC call. */
  #calls: GrpcStats | undefined;

  constructor(stats: Stats, labels: Labels) {
    this.#stats = stats;
    this.#labels = labels;
    this.pool = httpPoolStats(stats, labels);
    this.#metrics = metricsOf(stats, CLUSTER, labels);
    this.#responses = new SpreadCounters(stats, SPREAD.clusterResponses, labels);
    this.#retries = new SpreadCounters(stats, SPREAD.retries, labels);
  }

  /** A request was sent to an endpoint; {@link left} follows exactly once. */
  reached(): void {
    this.#metrics.requests.add(1);
    this.#metrics.active.add(1);
  }

  /** The request was answered, or is sent to another endpoint. */
  left(): void {
    this.#metrics.active.add(-1);
  }

  /** An exchange ended whose route led to the cluster. */
  ended(record: ExchangeRecord, isCall: boolean): void {
    const { status, attempts, endAt } = record;
    if (status !== 0) countStatus(this.#responses, status);
    if (record.upstreamFirstByteAt !== NOT_REACHED) {
      this.#metrics.times.observe(endAt - Math.max(record.requestEndAt, record.startedAt));
    }
    if (attempts > 1) this.#retries.of(0, {}).add(attempts - 1);
    if (isCall) (this.#calls ??= new GrpcStats(this.#stats, this.#labels)).ended(record);
  }

  forget(): void {
    this.#calls?.forget();
    removeMetrics(this.#stats, CLUSTER, this.#labels);
    removeMetrics(this.#stats, POOL, this.#labels);
    this.#responses.forget();
    this.#retries.forget();
  }
}

export class HttpStats extends ClusterCounters<HttpClusterStats> implements ExchangeObserver {
  readonly #stats: Stats;
  readonly #labels: Labels;
  readonly #speaksGrpc: () => boolean;
  readonly #metrics: MetricHandles<typeof METRICS>;
  readonly #responses: SpreadCounters;
  readonly #flags: SpreadCounters;
  readonly #failures: SpreadCounters;
  readonly #unjudged: SpreadCounters;
  readonly #denials: SpreadCounters;

  constructor(stats: Stats, { direction, listener, speaksGrpc }: StatsOwner) {
    const labels = { direction, listener };
    super((cluster) => new HttpClusterStats(stats, { ...labels, cluster }));
    this.#stats = stats;
    this.#labels = labels;
    this.#speaksGrpc = speaksGrpc;
    this.#metrics = metricsOf(stats, METRICS, labels);
    this.#responses = new SpreadCounters(stats, SPREAD.responses, labels);
    this.#flags = new SpreadCounters(stats, SPREAD.flags, labels);
    this.#failures = new SpreadCounters(stats, SPREAD.failures, labels);
    this.#unjudged = new SpreadCounters(stats, SPREAD.unjudged, labels);
    this.#denials = new SpreadCounters(stats, SPREAD.denials, labels);
  }

  /** Adds the counters of new clusters, so that they exist before there is something to count. */
  override keepClusters(names: ReadonlySet<string>): void {
    for (const name of names) this.of(name);
    super.keepClusters(names);
  }

  began(): void {
    this.#metrics.requests.add(1);
    this.#metrics.active.add(1);
  }

  reached(record: ExchangeRecord): void {
    record.counted?.left();
    const cluster = this.of(record.upstreamCluster);
    cluster.reached();
    record.counted = cluster;
  }

  ended(record: ExchangeRecord): void {
    const { status, flags, code, denial, endAt } = record;
    record.counted?.left();
    record.counted = undefined;
    this.#metrics.active.add(-1);
    this.#metrics.receivedBytes.add(record.receivedBytes);
    this.#metrics.sentBytes.add(record.sentBytes);
    this.#metrics.durations.observe(endAt - record.startedAt);
    if (status !== 0) countStatus(this.#responses, status);
    if (record.upstreamCluster !== "") {
      this.of(record.upstreamCluster).ended(record, this.#speaksGrpc());
    }
    if (flags !== 0) this.#countFlags(flags);
    if (denial) this.#denials.of(denial.code, { code: denial.code }).add(1);
    if (code !== undefined) countEnding(this.#failures, code, record.endedBy ?? "proxy");
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

  forget(): void {
    this.keepClusters(new Set());
    removeMetrics(this.#stats, METRICS, this.#labels);
    this.#responses.forget();
    this.#flags.forget();
    this.#failures.forget();
    this.#unjudged.forget();
    this.#denials.forget();
  }
}

function countStatus(spread: SpreadCounters, status: number): void {
  const known = spread.known(status);
  if (known) return known.add(1);
  const text = spread.size < STATUS_LIMIT ? String(status) : `${Math.floor(status / 100)}xx`;
  spread.of(spread.size < STATUS_LIMIT ? status : text, { status: text }).add(1);
}
