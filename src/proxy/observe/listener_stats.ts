/**
 * Counters of the connections of one listener, and what its operator is warned of.
 *
 * @module
 */

import type { Counter, Labels, Origin, Stats } from "../../base/mod.ts";
import type { Relay } from "../../net/mod.ts";
import { ClusterStats } from "./cluster_stats.ts";
import { endedByOf, type Ending } from "./ending.ts";
import type { ConnectionObserver } from "./observers.ts";

const STOPPED =
  "ended requests in the last minute: too many bytes waited in memory for a slower side";
const ENDED_METRIC = "connections_ended_total";
const METRICS = {
  opened: ["connections_opened_total", "Connections accepted by the listener"],
  active: ["connections_active", "Connections of the listener that are open now"],
  receivedBytes: [
    "received_bytes_total",
    "Bytes received from callers on all connections, those still open included",
  ],
  sentBytes: [
    "sent_bytes_total",
    "Bytes sent to callers on all connections, those still open included",
  ],
  denied: [
    "intention_denied_total",
    "Connections and requests that an intention or the default policy denied",
  ],
  resumed: [
    "tls_resumed_total",
    "TLS handshakes that resumed an earlier session in place of a full handshake",
  ],
  secretsMissing: [
    "secrets_not_ready_total",
    "Connections refused because a secret of the listener or upstream has not come yet",
  ],
  refused: [
    "connections_refused_total",
    "Connections refused because a limit on connections was reached",
  ],
  stopped: [
    "held_bytes_stopped_total",
    "Requests and connections ended because too many bytes were held for their slow side",
  ],
} as const;

/** How long a warning about refused or stopped connections is shown. */
const WARNING_MS = 60_000;

interface Ended {
  readonly relay: Pick<Relay, "receivedBytes" | "sentBytes"> | undefined;
}

/** Counters of one listener's connections; handles are resolved once. */
export class ListenerStats implements ConnectionObserver {
  readonly active: Counter;
  readonly denied: Counter;
  readonly #opened: Counter;
  readonly #receivedBytes: Counter;
  readonly #sentBytes: Counter;
  readonly resumed: Counter;
  readonly secretsMissing: Counter;
  readonly #stopped: Counter;
  /** Monotonic time at which an exchange was last ended to free memory. */
  #stoppedMs = -Infinity;
  readonly #refused: Counter;
  /** The last connection that was refused because a limit was reached. */
  #full: { readonly reason: string; readonly ms: number } | undefined;
  readonly #stats: Stats;
  readonly #labels: { readonly direction: string; readonly listener: string };
  readonly #clusters = new Map<string, ClusterStats>();
  readonly #endings = new Map<string, { readonly labels: Labels; readonly counter: Counter }>();

  constructor(stats: Stats, direction: "inbound" | "outbound", listener: string) {
    this.#stats = stats;
    const labels = this.#labels = { direction, listener };
    this.#opened = stats.counter(...METRICS.opened, labels);
    this.active = stats.gauge(...METRICS.active, labels);
    this.#receivedBytes = stats.counter(...METRICS.receivedBytes, labels);
    this.#sentBytes = stats.counter(...METRICS.sentBytes, labels);
    this.denied = stats.counter(...METRICS.denied, labels);
    this.resumed = stats.counter(...METRICS.resumed, labels);
    this.secretsMissing = stats.counter(...METRICS.secretsMissing, labels);
    this.#stopped = stats.counter(...METRICS.stopped, labels);
    this.#refused = stats.counter(...METRICS.refused, labels);
  }

  began(): void {
    this.#opened.add(1);
    this.active.add(1);
  }

  ended({ relay }: Ended, ending: Ending): void {
    this.active.add(-1);
    this.#receivedBytes.add(relay?.receivedBytes ?? 0);
    this.#sentBytes.add(relay?.sentBytes ?? 0);
    if (ending.kind === "failed" && ending.code === "intention_denied") this.denied.add(1);
    this.#count(ending.kind === "completed" ? "completed" : ending.code, endedByOf(ending));
  }

  /** An exchange was ended to free memory. */
  stoppedExchange(nowMs: number): void {
    this.#stopped.add(1);
    this.#stoppedMs = nowMs;
  }

  /** A connection was refused because a limit was reached. */
  refusedFull(reason: string, nowMs: number): void {
    this.#refused.add(1);
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

  /** Counters of the connections that carry bytes to that cluster. */
  of(cluster: string): ClusterStats {
    let stats = this.#clusters.get(cluster);
    if (!stats) {
      stats = new ClusterStats(this.#stats, { ...this.#labels, cluster });
      this.#clusters.set(cluster, stats);
    }
    return stats;
  }

  /** Removes the counters of clusters that the listener does not lead to any more. */
  keepClusters(names: ReadonlySet<string>): void {
    for (const [name, stats] of this.#clusters) {
      if (names.has(name)) continue;
      this.#clusters.delete(name);
      stats.forget();
    }
  }

  /** Removes the metrics of a listener that is gone. */
  forget(): void {
    this.keepClusters(new Set());
    for (const [name] of Object.values(METRICS)) this.#stats.remove(name, this.#labels);
    for (const { labels } of this.#endings.values()) this.#stats.remove(ENDED_METRIC, labels);
  }

  #count(outcome: string, endedBy: Origin): void {
    const key = `${outcome} ${endedBy}`;
    let ending = this.#endings.get(key);
    if (!ending) {
      const labels = { ...this.#labels, outcome, ended_by: endedBy };
      const help = "Connections that ended, by outcome and the side that ended them";
      ending = { labels, counter: this.#stats.counter(ENDED_METRIC, help, labels) };
      this.#endings.set(key, ending);
    }
    ending.counter.add(1);
  }
}
