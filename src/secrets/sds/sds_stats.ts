/**
 * Counters of one server's secrets, by name for a bounded number of names.
 *
 * @module
 */

import type { Labels, Stats } from "../../base/mod.ts";

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

export type SdsMetric = keyof typeof METRICS;

const METRIC_NAMES = Object.keys(METRICS) as readonly SdsMetric[];
/** Names asked for on demand are chosen by strangers. */
const NAMES_LIMIT = 1_000;

type Count = (metric: SdsMetric) => void;

export class SdsStats {
  readonly #stats: Stats;
  readonly #source: string;
  readonly #counts = new Map<string, Count>();
  readonly #others: Count;

  /** `source`: `sds sds_cluster`. */
  constructor(stats: Stats, source: string) {
    this.#stats = stats;
    this.#source = source;
    this.#others = this.#countOf({ secret: "other", source });
    this.connected(false);
  }

  add(metric: SdsMetric, name: string): void {
    let count = this.#counts.get(name);
    if (!count) {
      if (this.#counts.size >= NAMES_LIMIT) return this.#others(metric);
      this.#counts.set(name, count = this.#countOf({ secret: name, source: this.#source }));
    }
    count(metric);
  }

  /** Makes room for another name. */
  forget(name: string): void {
    if (!this.#counts.delete(name)) return;
    const labels = { secret: name, source: this.#source };
    for (const metric of METRIC_NAMES) this.#stats.remove(METRICS[metric][0], labels);
  }

  connected(is: boolean): void {
    const help = "1 while the stream to the SDS server stands and the server answers";
    this.#stats.gauge("sds_connected_state", help, { source: this.#source }).set(is ? 1 : 0);
  }

  close(): void {
    for (const name of [...this.#counts.keys()]) this.forget(name);
    this.#stats.remove("sds_connected_state", { source: this.#source });
  }

  #countOf(labels: Labels): Count {
    const counters = METRIC_NAMES.map((metric) => {
      const [name, help] = METRICS[metric];
      return [metric, this.#stats.counter(name, help, labels)] as const;
    });
    const byMetric = new Map(counters);
    return (metric) => byMetric.get(metric)?.add(1);
  }
}
