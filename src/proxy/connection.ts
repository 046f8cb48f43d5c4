/**
 * One connection's story: where it came from, how far it got, who ended it. Every connection ends here
 * exactly once, with one log line and one count.
 *
 * @module
 */

import {
  type Counter,
  type ErrorCode,
  type Fields,
  type Labels,
  type Log,
  type Origin,
  originOf,
  type Stats,
} from "../base/mod.ts";
import type { PresentedPeer, Relay, RelayEnd } from "../net/mod.ts";
import type { RefusalSums } from "./refusal_sums.ts";
import type { ConnectionView } from "./view.ts";

/** How far a connection has got; the stages of the data flow in their order. */
export type Progress =
  | "accept"
  | "handshake"
  | "identity"
  | "authorize"
  | "target"
  | "endpoint"
  | "dial"
  | "relay";

/** How a connection ended: in order, or with a code from the table. */
export type Ending =
  | { readonly kind: "completed"; readonly by: "downstream" | "upstream" }
  | {
    readonly kind: "failed";
    readonly code: ErrorCode;
    readonly reason: string;
    /** It was under way and we ended it, whoever the code blames. */
    readonly by?: "proxy" | undefined;
    /** Its like was warned of a short while ago. */
    readonly quiet?: boolean;
  };

let lastId = 0;

export class ConnectionRecord {
  readonly id: number = ++lastId;
  readonly direction: "inbound" | "outbound";
  readonly listener: string;
  readonly remote: string;
  readonly openedMs: number;
  readonly destination: string;
  stage: Progress = "accept";
  source = "";
  endpoint = "";
  rule = "";
  tlsVersion = "";
  resumed = false;
  relay: Relay | undefined;

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

  view(
    now: { readonly ms: number; readonly tick: number; readonly tickMs: number },
  ): ConnectionView {
    const { relay } = this;
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
      idleMs: relay ? (now.tick - relay.activeTick) * now.tickMs : 0,
      receivedBytes: relay?.receivedBytes ?? 0,
      sentBytes: relay?.sentBytes ?? 0,
      rule: this.rule,
      tlsVersion: this.tlsVersion,
      resumed: this.resumed,
    };
  }
}

const ENDED_METRIC = "connections_ended_total";
const METRICS = {
  opened: ["connections_opened_total", "Connections accepted"],
  active: ["connections_active", "Connections open now"],
  receivedBytes: [
    "received_bytes_total",
    "Bytes from the downstream of finished and open connections",
  ],
  sentBytes: ["sent_bytes_total", "Bytes sent to the downstream"],
  resumed: ["tls_resumed_total", "TLS handshakes that resumed an earlier session"],
  secretsMissing: [
    "secrets_not_ready_total",
    "Connections refused because secrets of the listener or upstream have not come",
  ],
} as const;

/** Stat handles of one listener, resolved once. */
export class ListenerStats {
  readonly opened: Counter;
  readonly active: Counter;
  readonly receivedBytes: Counter;
  readonly sentBytes: Counter;
  readonly resumed: Counter;
  readonly secretsMissing: Counter;
  readonly #stats: Stats;
  readonly #labels: { readonly direction: string; readonly listener: string };
  readonly #endings = new Map<string, { readonly labels: Labels; readonly counter: Counter }>();

  constructor(stats: Stats, direction: "inbound" | "outbound", listener: string) {
    this.#stats = stats;
    const labels = this.#labels = { direction, listener };
    this.opened = stats.counter(...METRICS.opened, labels);
    this.active = stats.gauge(...METRICS.active, labels);
    this.receivedBytes = stats.counter(...METRICS.receivedBytes, labels);
    this.sentBytes = stats.counter(...METRICS.sentBytes, labels);
    this.resumed = stats.counter(...METRICS.resumed, labels);
    this.secretsMissing = stats.counter(...METRICS.secretsMissing, labels);
  }

  /** Gives the names of a listener that was removed back, once nothing counts on them. */
  forget(): void {
    for (const [name] of Object.values(METRICS)) this.#stats.remove(name, this.#labels);
    for (const { labels } of this.#endings.values()) this.#stats.remove(ENDED_METRIC, labels);
  }

  ended(outcome: string, endedBy: Origin): void {
    const key = `${outcome} ${endedBy}`;
    let ending = this.#endings.get(key);
    if (!ending) {
      const labels = { ...this.#labels, outcome, ended_by: endedBy };
      const help = "Connections ended, by outcome and who ended them";
      ending = { labels, counter: this.#stats.counter(ENDED_METRIC, help, labels) };
      this.#endings.set(key, ending);
    }
    ending.counter.add(1);
  }
}

/** Writes the one line and the counts of a connection's end. */
export function reportEnd(
  record: ConnectionRecord,
  ending: Ending,
  options: {
    readonly log: Log;
    readonly stats: ListenerStats;
    readonly sums: RefusalSums;
    readonly nowMs: number;
  },
): void {
  const { log, stats, sums, nowMs } = options;
  const { relay } = record;
  stats.active.add(-1);
  stats.receivedBytes.add(relay?.receivedBytes ?? 0);
  stats.sentBytes.add(relay?.sentBytes ?? 0);
  const endedBy = endedByOf(ending);
  stats.ended(ending.kind === "completed" ? "completed" : ending.code, endedBy);
  const level = levelOf(ending);
  if (!log.enabled(level)) return;
  if (ending.kind === "failed" && !sums.isTold(record, ending, level)) return;
  const fields: Fields = {
    direction: record.direction,
    listener: record.listener,
    source: record.source || record.remote,
    destination: record.destination,
    remote: record.remote,
    endpoint: record.endpoint || undefined,
    received_bytes: relay?.receivedBytes ?? 0,
    sent_bytes: relay?.sentBytes ?? 0,
    duration_ms: Math.round(nowMs - record.openedMs),
    ended_by: endedBy,
    stage: ending.kind === "completed" ? "relay" : record.stage,
    code: ending.kind === "failed" ? ending.code : undefined,
    reason: ending.kind === "failed" && ending.reason !== record.rule && ending.reason
      ? ending.reason
      : undefined,
    rule: record.rule || undefined,
    resumed: record.resumed || undefined,
  };
  log[level](ending.kind === "completed" ? "connection ended" : "connection failed", fields);
}

function endedByOf(ending: Ending): Origin {
  return ending.kind === "completed" ? ending.by : ending.by ?? originOf(ending.code);
}

function levelOf(ending: Ending): "debug" | "info" | "warn" {
  if (ending.kind === "completed") return "info";
  switch (ending.code) {
    case "closed_early":
      return "debug";
    case "intention_denied":
    case "identity_invalid":
    case "chain_untrusted":
    case "endpoint_untrusted":
    case "overloaded":
    case "no_endpoint":
    case "not_ready":
      return "warn";
    case "refused_by_peer":
      return ending.quiet ? "info" : "warn";
    default:
      return "info";
  }
}

/** What a relay's end means for the connection. */
export function endingOf(end: RelayEnd): Ending {
  if (end.kind === "ended") return { kind: "completed", by: end.first };
  return {
    kind: "failed",
    code: end.by === "downstream" ? "downstream_reset" : "endpoint_reset",
    reason: "",
  };
}
