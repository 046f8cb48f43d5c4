/**
 * One connection's story: where it came from, how far it got; and what is counted of those of a listener.
 *
 * @module
 */

import type { Counter, Labels, Origin, Stats } from "../../base/mod.ts";
import type { PresentedPeer, Relay } from "../../net/mod.ts";
import { ClusterStats } from "./cluster_stats.ts";
import type { ConnectionView, RequestsView } from "./view.ts";

/** How far a connection has got; the stages of the data flow in their order. */
export type ConnectionStage =
  | "accept"
  | "handshake"
  | "identity"
  | "authorize"
  | "plugins"
  | "target"
  | "endpoint"
  | "dial"
  | "relay"
  | "http";

/** Monotonic, and in ticks of who sweeps. */
export interface SweepTime {
  readonly ms: number;
  readonly tick: number;
  readonly tickMs: number;
}

export interface OpenRequests {
  view(now: SweepTime): RequestsView;
}

let lastId = 0;

export class ConnectionRecord {
  readonly id: number = ++lastId;
  readonly direction: "inbound" | "outbound";
  readonly listener: string;
  readonly remote: string;
  readonly openedMs: number;
  readonly destination: string;
  stage: ConnectionStage = "accept";
  source = "";
  endpoint = "";
  rule = "";
  /** That the caller asked for in its handshake. */
  serverName = "";
  tlsVersion = "";
  resumed = false;
  relay: Relay | undefined;
  /** Where it carries HTTP. */
  requests: OpenRequests | undefined;
  /** For the access log, and noted only where there is one: our ends, and Envoy's name of where it went. */
  local = "";
  upstreamLocal = "";
  cluster = "";

  constructor(
    { direction, name, destination }: {
      readonly direction: "inbound" | "outbound";
      readonly name: string;
      readonly destination: string;
    },
    remote: string,
    openedMs: number,
  ) {
    this.direction = direction;
    this.listener = name;
    this.destination = destination;
    this.remote = remote;
    this.openedMs = openedMs;
  }

  /** Of the side that is in the mesh. */
  secured({ version, resumed }: PresentedPeer, stats: ListenerStats): void {
    this.tlsVersion = version;
    this.resumed = resumed;
    if (resumed) stats.resumed.add(1);
  }

  view(now: SweepTime): ConnectionView {
    const { relay } = this;
    const http = this.requests?.view(now) ?? null;
    return {
      id: String(this.id),
      listener: this.listener,
      direction: this.direction,
      source: this.source,
      destination: this.destination,
      remote: this.remote,
      endpoint: this.endpoint,
      stage: this.stage,
      ageMs: Math.round(now.ms - this.openedMs),
      idleMs: relay ? (now.tick - relay.activeTick) * now.tickMs : http?.idleMs ?? 0,
      receivedBytes: relay?.receivedBytes ?? 0,
      sentBytes: relay?.sentBytes ?? 0,
      rule: this.rule,
      tlsVersion: this.tlsVersion,
      resumed: this.resumed,
      http,
    };
  }
}

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

/** For so long an operator is told of it. */
const TOLD_MS = 60_000;

/** Stat handles of one listener, resolved once. */
export class ListenerStats {
  readonly opened: Counter;
  readonly active: Counter;
  readonly receivedBytes: Counter;
  readonly sentBytes: Counter;
  readonly denied: Counter;
  readonly resumed: Counter;
  readonly secretsMissing: Counter;
  readonly #stopped: Counter;
  /** Monotonic; when an exchange was stopped last to give back memory. */
  #stoppedMs = -Infinity;
  readonly #refused: Counter;
  /** The last one that was turned away for want of a place. */
  #full: { readonly reason: string; readonly ms: number } | undefined;
  readonly #stats: Stats;
  readonly #labels: { readonly direction: string; readonly listener: string };
  readonly #clusters = new Map<string, ClusterStats>();
  readonly #endings = new Map<string, { readonly labels: Labels; readonly counter: Counter }>();

  constructor(stats: Stats, direction: "inbound" | "outbound", listener: string) {
    this.#stats = stats;
    const labels = this.#labels = { direction, listener };
    this.opened = stats.counter(...METRICS.opened, labels);
    this.active = stats.gauge(...METRICS.active, labels);
    this.receivedBytes = stats.counter(...METRICS.receivedBytes, labels);
    this.sentBytes = stats.counter(...METRICS.sentBytes, labels);
    this.denied = stats.counter(...METRICS.denied, labels);
    this.resumed = stats.counter(...METRICS.resumed, labels);
    this.secretsMissing = stats.counter(...METRICS.secretsMissing, labels);
    this.#stopped = stats.counter(...METRICS.stopped, labels);
    this.#refused = stats.counter(...METRICS.refused, labels);
  }

  /** One had to be ended to give back memory. */
  stoppedExchange(nowMs: number): void {
    this.#stopped.add(1);
    this.#stoppedMs = nowMs;
  }

  /** One was turned away because its places are taken, as `reason` says. */
  refusedFull(reason: string, nowMs: number): void {
    this.#refused.add(1);
    this.#full = { reason, ms: nowMs };
  }

  /** What is wrong with its callers, in words. */
  warnings(nowMs: number): readonly string[] {
    const isFull = this.#full && nowMs - this.#full.ms < TOLD_MS;
    return [
      ...(isFull ? [`refused connections in the last minute: ${this.#full?.reason}`] : []),
      ...(nowMs - this.#stoppedMs < TOLD_MS ? [STOPPED] : []),
    ];
  }

  /** Of the connections from this listener to that cluster, which carry bytes. */
  of(cluster: string): ClusterStats {
    let stats = this.#clusters.get(cluster);
    if (!stats) {
      stats = new ClusterStats(this.#stats, { ...this.#labels, cluster });
      this.#clusters.set(cluster, stats);
    }
    return stats;
  }

  /** Forgets clusters that the listener does not lead to any more. */
  keepClusters(names: ReadonlySet<string>): void {
    for (const [name, stats] of this.#clusters) {
      if (names.has(name)) continue;
      this.#clusters.delete(name);
      stats.forget();
    }
  }

  /** Gives the names of a listener that was removed back, once nothing counts on them. */
  forget(): void {
    this.keepClusters(new Set());
    for (const [name] of Object.values(METRICS)) this.#stats.remove(name, this.#labels);
    for (const { labels } of this.#endings.values()) this.#stats.remove(ENDED_METRIC, labels);
  }

  ended(outcome: string, endedBy: Origin): void {
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
