/** Counters and log lines about one SDS server (envoy.md 1.6). @module */

import type { Clock, Log, Stats } from "../../base/mod.ts";
import { formatStatus, type GrpcStatus } from "../../grpc/mod.ts";
import { GRPC_STATUS } from "../../http/mod.ts";

const METRICS = {
  attempt: [
    "sds_update_attempt_total",
    "Times that the secret was requested from the SDS server or came from it",
  ],
  success: [
    "sds_update_success_total",
    "Values of the secret from the SDS server that were accepted, changed or not",
  ],
  failure: [
    "sds_update_failure_total",
    "Streams to the SDS server that failed while the secret was requested on them",
  ],
  rejected: [
    "sds_update_rejected_total",
    "Values of the secret from the SDS server that were refused",
  ],
} as const;

type SdsMetric = keyof typeof METRICS;

const METRIC_KEYS = Object.keys(METRICS) as readonly SdsMetric[];
/** Clients choose the names that are fetched on demand. */
const NAMES_LIMIT = 1_000;

export class SdsStats {
  readonly #stats: Stats;
  readonly #source: string;
  readonly #names = new Set<string>();

  /** `source`: `sds sds_cluster`. */
  constructor(stats: Stats, source: string) {
    this.#stats = stats;
    this.#source = source;
    this.#addTo("other");
    this.connected(false);
  }

  add(metric: SdsMetric, name: string): void {
    const isNew = !this.#names.has(name);
    if (isNew && this.#names.size >= NAMES_LIMIT) return this.#count(metric, "other", 1);
    if (isNew) this.#addTo(name);
    this.#names.add(name);
    this.#count(metric, name, 1);
  }

  /** Makes room for another name. */
  forget(name: string): void {
    if (!this.#names.delete(name)) return;
    const labels = { secret: name, source: this.#source };
    for (const metric of METRIC_KEYS) this.#stats.remove(METRICS[metric][0], labels);
  }

  connected(is: boolean): void {
    const help = "1 while the stream to the SDS server stands and the server answers";
    this.#stats.gauge("sds_connected_state", help, { source: this.#source }).set(is ? 1 : 0);
  }

  close(): void {
    for (const name of [...this.#names]) this.forget(name);
    this.#stats.remove("sds_connected_state", { source: this.#source });
  }

  /** All counters of a name begin with 0. */
  #addTo(name: string): void {
    for (const metric of METRIC_KEYS) this.#count(metric, name, 0);
  }

  #count(metric: SdsMetric, secret: string, by: number): void {
    const [name, help] = METRICS[metric];
    this.#stats.counter(name, help, { secret, source: this.#source }).add(by);
  }
}

/** Faults that usually pass by themselves. */
const PASSING: readonly number[] = [
  GRPC_STATUS.unavailable,
  GRPC_STATUS.deadlineExceeded,
  GRPC_STATUS.resourceExhausted,
];
const PERSISTENT_MS = 30_000;
/** Distinct faults that are logged until the server answers again. */
const FAULTS_LIMIT = 20;

export class ServerHealth {
  readonly #clock: Clock;
  readonly #log: Log;
  #failingSinceMs: number | undefined;
  /** Streams of different names may fail in turn, each for a reason of its own. */
  readonly #logged = new Set<string>();

  constructor(clock: Clock, log: Log) {
    this.#clock = clock;
    this.#log = log;
  }

  reached(): void {
    if (this.#failingSinceMs === undefined) return;
    if (this.#logged.size > 0) this.#log.info("sds server answers again");
    this.#failingSinceMs = undefined;
    this.#logged.clear();
  }

  /** `name`: the secret, if the stream has only one. */
  failed(status: GrpcStatus, name?: string): void {
    const nowMs = this.#clock.monotonic();
    this.#failingSinceMs ??= nowMs;
    const about = { reason: formatStatus(status), ...(name !== undefined && { name }) };
    const fault = JSON.stringify(about);
    const forMs = nowMs - this.#failingSinceMs;
    const isPassing = PASSING.includes(status.code);
    const isLoud = !isPassing || forMs >= PERSISTENT_MS;
    // One persistent fault in different words is one line.
    const isKnown = this.#logged.has(fault) || (isPassing && this.#logged.size > 0);
    if (!isLoud || isKnown || this.#logged.size >= FAULTS_LIMIT) {
      this.#log.debug("sds stream failed", about);
      return;
    }
    this.#logged.add(fault);
    const fields = { ...about, ...(forMs > 0 && { failing_ms: Math.round(forMs) }) };
    this.#log.warn("sds stream failed", fields);
  }
}
