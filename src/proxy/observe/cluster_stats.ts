/**
 * Counters of the connections behind a listener that carries bytes, by cluster: the name that Consul gives
 * Envoy for their destination. Handles are resolved when the cluster is known.
 *
 * @module
 */

import type { Counter, ErrorCode, Gauge, Labels, Stats } from "../../base/mod.ts";
import type { Relay } from "../../net/mod.ts";

/** The local application, as Consul names it to Envoy. */
export const LOCAL_CLUSTER = "local_app";

const METRICS = {
  opened: ["upstream_connections_total", "TCP connections opened to instances of the cluster"],
  active: [
    "upstream_connections_active",
    "TCP connections to instances of the cluster that are open now",
  ],
  failures: [
    "upstream_connect_failures_total",
    "TCP connections to the cluster that could not be opened, timeouts included",
  ],
  timeouts: [
    "upstream_connect_timeouts_total",
    "TCP connections to the cluster that were not open within the connect timeout",
  ],
  sentBytes: [
    "upstream_sent_bytes_total",
    "Bytes sent to the cluster; counted when a connection ends",
  ],
  receivedBytes: [
    "upstream_received_bytes_total",
    "Bytes received from the cluster; counted when a connection ends",
  ],
} as const;

const TIMEOUTS: ReadonlySet<ErrorCode> = new Set(["endpoint_timed_out", "local_timed_out"]);

export class ClusterStats {
  readonly #stats: Stats;
  readonly #labels: Labels;
  readonly #opened: Counter;
  readonly #active: Gauge;
  readonly #failures: Counter;
  readonly #timeouts: Counter;
  readonly #sentBytes: Counter;
  readonly #receivedBytes: Counter;

  /** `labels`: of the listener, and the cluster. */
  constructor(stats: Stats, labels: Labels) {
    this.#stats = stats;
    this.#labels = labels;
    this.#opened = stats.counter(...METRICS.opened, labels);
    this.#active = stats.gauge(...METRICS.active, labels);
    this.#failures = stats.counter(...METRICS.failures, labels);
    this.#timeouts = stats.counter(...METRICS.timeouts, labels);
    this.#sentBytes = stats.counter(...METRICS.sentBytes, labels);
    this.#receivedBytes = stats.counter(...METRICS.receivedBytes, labels);
  }

  /** A connection is open; {@link ended} follows exactly once. */
  opened(): void {
    this.#opened.add(1);
    this.#active.add(1);
  }

  ended({ receivedBytes, sentBytes }: Pick<Relay, "receivedBytes" | "sentBytes">): void {
    this.#active.add(-1);
    this.#sentBytes.add(receivedBytes);
    this.#receivedBytes.add(sentBytes);
  }

  failed(code: ErrorCode): void {
    this.#failures.add(1);
    if (TIMEOUTS.has(code)) this.#timeouts.add(1);
  }

  forget(): void {
    for (const [name] of Object.values(METRICS)) this.#stats.remove(name, this.#labels);
  }
}
