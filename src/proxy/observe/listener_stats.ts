/** Counters of the connections of one listener and its clusters, and its warnings. @module */

import type { ErrorCode, Labels, Stats } from "../../base/mod.ts";
import { endedByOf, type Ending } from "./connection_record.ts";
import {
  ClusterCounters,
  countEnding,
  type MetricHandles,
  metricsOf,
  type MetricTable,
  removeMetrics,
  SpreadCounters,
} from "./metrics.ts";
import type { ConnectionObserver } from "./observers.ts";

const STOPPED =
  "ended requests in the last minute: too many bytes waited in memory for a slower side";
const ENDED = [
  "connections_ended_total",
  "Connections that ended, by outcome and the side that ended them",
] as const;
const REFUSED = [
  "connections_refused_total",
  "Connections refused because a limit on connections was reached: of the listener or the process",
] as const;
const METRICS = {
  opened: ["counter", "connections_opened_total", "Connections accepted by the listener"],
  active: ["gauge", "connections_active", "Connections of the listener that are open now"],
  receivedBytes: [
    "counter",
    "received_bytes_total",
    "Bytes received from callers over TCP; open connections are counted once a second",
  ],
  sentBytes: [
    "counter",
    "sent_bytes_total",
    "Bytes sent to callers over TCP; open connections are counted once a second",
  ],
  receivedWaiting: [
    "gauge",
    "received_bytes_waiting",
    "Bytes received from callers over TCP that the other side has not taken yet",
  ],
  sentWaiting: [
    "gauge",
    "sent_bytes_waiting",
    "Bytes for callers over TCP that the callers have not taken yet",
  ],
  denied: [
    "counter",
    "intention_denied_total",
    "Connections and requests that an intention or the default policy denied",
  ],
  resumed: [
    "counter",
    "tls_resumed_total",
    "TLS handshakes that resumed an earlier session in place of a full handshake",
  ],
  secretsMissing: [
    "counter",
    "secrets_not_ready_total",
    "Connections refused because a secret of the listener or upstream has not come yet",
  ],
  stopped: [
    "counter",
    "held_bytes_stopped_total",
    "Requests and connections ended because too many bytes were held for their slow side",
  ],
} as const satisfies MetricTable;

/** How long a warning about refused or stopped connections is shown. */
const WARNING_MS = 60_000;

export class ListenerStats extends ClusterCounters<ClusterStats> implements ConnectionObserver {
  readonly metrics: MetricHandles<typeof METRICS>;
  readonly #stats: Stats;
  readonly #labels: Labels;
  readonly #endings: SpreadCounters;
  readonly #refused: SpreadCounters;
  /** Monotonic time at which an exchange was last ended to free memory. */
  #stoppedMs = -Infinity;
  /** The last connection that was refused because a limit was reached. */
  #full: { readonly reason: string; readonly ms: number } | undefined;

  constructor(stats: Stats, direction: "inbound" | "outbound", listener: string) {
    const labels = { direction, listener };
    super((cluster) => new ClusterStats(stats, { ...labels, cluster }));
    this.#stats = stats;
    this.#labels = labels;
    this.metrics = metricsOf(stats, METRICS, labels);
    this.#endings = new SpreadCounters(stats, ENDED, labels);
    this.#refused = new SpreadCounters(stats, REFUSED, labels);
    // They are shown from the start.
    for (const limit of ["listener", "process"] as const) this.#refused.of(limit, { limit });
  }

  began(): void {
    this.metrics.opened.add(1);
    this.metrics.active.add(1);
  }

  ended(_record: object, ending: Ending): void {
    this.metrics.active.add(-1);
    if (ending.kind === "failed" && ending.code === "intention_denied") this.metrics.denied.add(1);
    const outcome = ending.kind === "completed" ? "completed" : ending.code;
    countEnding(this.#endings, outcome, endedByOf(ending));
  }

  /** An exchange was ended to free memory. */
  stoppedExchange(nowMs: number): void {
    this.metrics.stopped.add(1);
    this.#stoppedMs = nowMs;
  }

  /** A connection was refused because a limit was reached. */
  refusedFull(limit: "listener" | "process", reason: string, nowMs: number): void {
    this.#refused.known(limit)?.add(1);
    this.#full = { reason, ms: nowMs };
  }

  /** Sentences for operators about limits that were reached lately. */
  warnings(nowMs: number): readonly string[] {
    const isFull = this.#full && nowMs - this.#full.ms < WARNING_MS;
    return [
      ...(isFull ? [`refused connections in the last minute: ${this.#full?.reason}`] : []),
      ...(nowMs - this.#stoppedMs < WARNING_MS ? [STOPPED] : []),
    ];
  }

  forget(): void {
    this.keepClusters(new Set());
    removeMetrics(this.#stats, METRICS, this.#labels);
    this.#endings.forget();
    this.#refused.forget();
  }
}

/** The local application, as Consul names it to Envoy. */
export const LOCAL_CLUSTER = "local_app";

const CLUSTER = {
  opened: [
    "counter",
    "upstream_connections_total",
    "TCP connections opened to instances of the cluster",
  ],
  active: [
    "gauge",
    "upstream_connections_active",
    "TCP connections to instances of the cluster that are open now",
  ],
  failures: [
    "counter",
    "upstream_connect_failures_total",
    "TCP connections to the cluster that could not be opened, timeouts included",
  ],
  timeouts: [
    "counter",
    "upstream_connect_timeouts_total",
    "TCP connections to the cluster that were not open within the connect timeout",
  ],
  sentBytes: [
    "counter",
    "upstream_sent_bytes_total",
    "Bytes sent to the cluster over TCP; open connections are counted once a second",
  ],
  receivedBytes: [
    "counter",
    "upstream_received_bytes_total",
    "Bytes received from the cluster over TCP; open connections are counted once a second",
  ],
} as const satisfies MetricTable;

const TIMEOUTS: ReadonlySet<ErrorCode> = new Set(["endpoint_timed_out", "local_timed_out"]);

/** Counters of the connections to one cluster that carry bytes. */
export class ClusterStats {
  readonly #stats: Stats;
  readonly #labels: Labels;
  readonly #metrics: MetricHandles<typeof CLUSTER>;

  constructor(stats: Stats, labels: Labels) {
    this.#stats = stats;
    this.#labels = labels;
    this.#metrics = metricsOf(stats, CLUSTER, labels);
  }

  /** A connection is open; {@link ended} follows exactly once. */
  opened(): void {
    this.#metrics.opened.add(1);
    this.#metrics.active.add(1);
  }

  /** Bytes of the caller, and bytes for the caller. */
  moved(received: number, sent: number): void {
    this.#metrics.sentBytes.add(received);
    this.#metrics.receivedBytes.add(sent);
  }

  ended(): void {
    this.#metrics.active.add(-1);
  }

  failed(code: ErrorCode): void {
    this.#metrics.failures.add(1);
    if (TIMEOUTS.has(code)) this.#metrics.timeouts.add(1);
  }

  forget(): void {
    removeMetrics(this.#stats, CLUSTER, this.#labels);
  }
}
